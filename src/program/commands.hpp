// The sub-commands: each runs on all ranks, throws what goes wrong, and returns the exit code.
#pragma once

#include "program/job.hpp"

namespace petaflow {

inline constexpr int kDone = 0, kUserErrorCode = 1, kFailureCode = 2, kStopped = 3;

int command_generate(Job& job);
int command_train(Job& job);
int command_evaluate(Job& job);
int command_predict(Job& job);
int command_summary(Job& job);
int command_bench(Job& job);
int command_report(Job& job);
int command_export(Job& job);

/// Text to stdout on rank 0: what a command is for, printed where log lines are off, too.
void print(const Job& job, const std::string& text);

/// On all ranks: the table of hosts, threads and cores where there are several ranks, and warnings of too few cores.
void say_binding(Job& job);

/// How convolutions multiply, where that is not plain f32: sentences without a full stop.
std::vector<std::string> describe_products(const CommonOptions& options);

/// What evaluate and predict share: the run's options are loaded, its network stands with its weights.
struct TrainedNetwork {
  std::string path;        // of the checkpoint
  std::string provenance;  // who trained it, with what
  std::unique_ptr<Objective> loss;
  std::unique_ptr<Network> network;
};
TrainedNetwork load_trained(Job& job);

/// On all ranks: Application::classical_estimates, none and a warning where there can be none: judging needs no
/// training set.
std::vector<Estimates> classical_estimates(Job& job, const Dataset& data);

/// On all ranks: the network applied to all samples of a set.
Predictions predict(Job& job, Network& network, const Objective& loss, const Dataset& data);

}  // namespace petaflow
