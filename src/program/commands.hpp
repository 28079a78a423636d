// The sub-commands: each runs on all ranks, throws what goes wrong, and returns the exit code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "nn/conv_tuning.hpp"
#include "nn/network.hpp"
#include "nn/objective.hpp"
#include "program/command_line.hpp"
#include "program/configuration.hpp"
#include "program/task.hpp"
#include "report/reporter.hpp"
#include "run/manifest.hpp"
#include "train/predictor.hpp"

namespace petaflow {

inline constexpr int kDone = 0, kUserErrorCode = 1, kFailureCode = 2, kStopped = 3;
inline int exit_code(const Error& error) { return error.kind() == ErrorKind::kUser ? kUserErrorCode : kFailureCode; }

/// With [inject] the same ranks with slower messages; otherwise null.  Collective.
std::unique_ptr<Communicator> delayed(Communicator& comm, const DelayOptions& options);

int command_generate(const CommandLine& line, Configuration& config, const Task& task, Communicator& comm);
int command_train(const CommandLine& line, Configuration& config, Task& task, const Reporter& reporter,
                  Communicator& comm);
int command_evaluate(const CommandLine& line, Configuration& config, Task& task, const Reporter& reporter,
                     Communicator& comm);
int command_predict(const CommandLine& line, Configuration& config, Task& task, Communicator& comm);
int command_inspect(const CommandLine& line, Configuration& config, const Task& task, Communicator& comm);
int command_summary(const CommandLine& line, Configuration& config, const Task& task, Communicator& comm);
/// Without Kokkos, which starts on no machine without a GPU.
int summarise_for_gpu(const CommandLine& line, const CommonOptions& options, const Task& task, Communicator& comm);
int command_bench(const CommandLine& line, Configuration& config, Task& task, Communicator& comm);
int command_report(const CommandLine& line, const Task& task, const Reporter& reporter, Communicator& comm);
int command_export(const CommandLine& line, Configuration& config, const Task& task, Communicator& comm);

/// Text to stdout on rank 0: what a command is for, printed where log lines are off, too.
void print(const Communicator& comm, const std::string& text);

/// On all ranks: the table of hosts, threads and cores where there are several ranks, and warnings of too few cores.
void say_binding(Communicator& comm, int threads);

/// How convolutions multiply, where that is not plain f32: sentences without a full stop.
std::vector<std::string> describe_products(const CommonOptions& options);

/// Sentence on the share of a micro-batch's memory that train.recompute saves and its cost, or that it saves
/// none; "" at 1.
/// @param network  of the graph, with these options
std::string describe_recompute(const Graph& graph, const NetworkOptions& options, const Network& network);

RunIdentity run_identity(const CommandLine& line, const CommonOptions& options, const Task& task);

/// Slots of a micro-batch of this rank.
std::int64_t micro_batch_size(const CommonOptions& options, const Communicator& comm);
/// The network of a training step of this rank.
NetworkOptions training_options(const CommonOptions& options, const Communicator& comm);

/// On all ranks, with kernels.conv = "tune": what is known of the convolutions of the task's network is read, the rest
/// is timed (tuning.hpp), for the constructors of networks.  Null with another choice.
/// @param backward  the network is to be trained
std::unique_ptr<ConvTuning> tune(const CommandLine& line, const Configuration& config, const Task& task,
                                 Communicator& comm, const Context& context, bool backward);

/// The state that evaluate and predict share: the run's options are loaded, its network stands with its weights.
struct TrainedNetwork {
  std::string path;        // of the checkpoint
  std::string provenance;  // who trained it, with what
  std::unique_ptr<Objective> objective;
  std::unique_ptr<Network> network;
};
TrainedNetwork load_trained(const CommandLine& line, Configuration& config, const Task& task, Communicator& comm,
                            const Context& context);

/// On all ranks: the predictor of a set.  Throws on all ranks where one fails.
std::unique_ptr<Predictor> make_predictor(const DataOptions& options, const Task& task, Communicator& comm,
                                          const Context& context, Network& network, const Objective& objective,
                                          const Dataset& data);

/// On all ranks: an evaluation in full, with errors and beside methods without a network; these are left out with a
/// warning where there can be none, as without the training set.
struct FullEvaluation {
  EvaluationRun run;
  std::unique_ptr<Evaluator> evaluator;  // merged
  Evaluation evaluation;                 // on rank 0
};
FullEvaluation evaluate_in_full(const DataOptions& options, Task& task, Communicator& comm, Predictor& predictor,
                                const Dataset& data);

}  // namespace petaflow
