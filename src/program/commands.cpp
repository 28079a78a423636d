#include "program/commands.hpp"

#include <cstdio>
#include <filesystem>

#include "comm/agree.hpp"
#include "io/log.hpp"
#include "kernels/conv.hpp"
#include "measure/binding.hpp"
#include "measure/rates.hpp"
#include "run/files.hpp"
#include "run/tuning.hpp"
#include "train/batch_share.hpp"
#include "train/weights.hpp"

namespace petaflow {

void print(const Communicator& comm, const std::string& text) {
  if (comm.rank() != 0) return;
  if (std::puts(text.c_str()) == EOF || std::fflush(stdout) != 0) failure("cannot write to the standard output");
}

void say_binding(Communicator& comm, int threads) {
  const std::vector<Binding> bindings = gather_bindings(comm, threads);
  if (bindings.size() > 1) log_line(binding_table(bindings));
  for (const std::string& warning : binding_warnings(bindings)) log_line(warning);
}

RunIdentity run_identity(const CommandLine& line, const CommonOptions& options, const Task& task) {
  return {task.name(), options.run.name, line.input, line.overrides, options.train.seed};
}

std::unique_ptr<Communicator> delayed(Communicator& comm, const DelayOptions& options) {
  if (!options.any()) return nullptr;
  std::unique_ptr<Transport> transport = comm.transport().split(0);
  agree(comm, [&] {
    if (std::max(options.slow_rank, options.kill_rank) >= comm.size()) {
      user_error("inject.{} is {}, but the ranks are 0 to {}",
                 options.slow_rank >= comm.size() ? "slow_rank" : "kill_rank",
                 std::max(options.slow_rank, options.kill_rank), comm.size() - 1);
    }
    transport = make_delayed_transport(std::move(transport), options);
  });
  if (comm.rank() == 0) log_warning("[inject] makes messages and ranks slower than they are, or breaks them");
  return std::make_unique<Communicator>(std::move(transport));
}

namespace {

BatchShare share_of(const CommonOptions& options, const Communicator& comm) {
  const int members = std::max(1, comm.size() / static_cast<int>(options.update.groups));
  return share_of_batch(group_options(options), comm.rank() % members, members);
}

}  // namespace

std::int64_t micro_batch_size(const CommonOptions& options, const Communicator& comm) {
  return share_of(options, comm).micro_batch;
}

NetworkOptions training_options(const CommonOptions& options, const Communicator& comm) {
  const BatchShare share = share_of(options, comm);
  NetworkOptions network = network_options(options, share.micro_batch);
  network.plans_gradient = gradient_ends_with_step(share, options.train, options.update);
  return network;
}

std::unique_ptr<ConvTuning> tune(const CommandLine& line, const Configuration& config, const Task& task,
                                 Communicator& comm, const Context& context, bool backward) {
  const CommonOptions& options = config.options;
  if (options.kernels.conv.rule != ConvRequest::Rule::kTune) return nullptr;
  std::vector<NetworkOptions> networks;
  const std::int64_t micro_batch = micro_batch_size(options, comm);
  if (backward) networks.push_back(network_options(options, micro_batch));
  if (!backward || options.precision != "f32") networks.push_back(inference_options(options, micro_batch));
  // A run that goes on keeps the choices that it began with.
  const TuningFiles files{line.resume ? config.run_folder() + "/" + kTuningFile : "", !line.check};
  return tune_convolutions(comm, context, task.model(task.sample_shape()), networks, files);
}

std::vector<std::string> describe_products(const CommonOptions& options) {
  std::vector<std::string> sentences;
  if (options.precision == "bf16") {
    sentences.push_back(
        fmt::format("convolutions in bf16, products by {} (where kokkos computes: f32 arithmetic); predictions in f32",
                    bf16_products()));
  }
  if (options.precision == "fp16")
    sentences.emplace_back("convolutions in fp16 (where kokkos computes: f32 arithmetic); predictions in f32");
  if (options.kernels.f32 == F32Products::kSplit3) {
    sentences.push_back(fmt::format("f32 convolutions of {}: by three products of bf16, these by {}{}",
                                    options.precision == "f32" ? "the passes that summary shows as split3"
                                                               : "predictions, no others (kernels.f32 = \"split3\")",
                                    bf16_products(),
                                    bf16_products() == "AMX tiles" ? "" : ", which is slower than f32"));
  }
  if (options.kernels.f32 == F32Products::kTf32) {
    sentences.push_back(
        fmt::format("f32 convolutions{}: {}", options.precision == "f32" ? "" : " of predictions, no others",
                    find_conv("cudnn") != nullptr
                        ? "cudnn may round what it multiplies to TF32"
                        : "true products, as there is no cuDNN in this program (kernels.f32 = \"tf32\")"));
  }
  return sentences;
}

std::string describe_recompute(const Graph& graph, const NetworkOptions& options, const Network& network) {
  if (options.recompute == 1) return "";
  NetworkOptions kept = options;
  kept.recompute = 1;
  kept.runs = false;
  kept.plans_gradient = network.gradient() != nullptr;
  const std::size_t least = network.arena_bytes(), most = Network(graph, kept, Context()).arena_bytes();
  const std::string what = fmt::format("train.recompute = {}", options.recompute);
  if (least >= most) {
    return fmt::format("{} saves no memory: {} for a micro-batch, {} without; {}train.recompute = 1 may be better",
                       what, format_bytes(least), format_bytes(most),
                       options.recompute > 1 ? "fewer segments or " : "");
  }
  return fmt::format("{}: {} for a micro-batch instead of {}, for {:.3f} GFLOP more per sample", what,
                     format_bytes(least), format_bytes(most),
                     1e-9 * network.again_flop() / static_cast<double>(network.batch()));
}

namespace {

// Overrides (option=value), which other commands take, would be looked for as data files.
void refuse_overrides(const CommandLine& line) {
  for (const std::string& file : line.files) {
    const std::size_t key = file.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.");
    if (key == 0 || key == std::string::npos || file[key] != '=' || std::filesystem::exists(file)) continue;
    user_error("{} is no file, and {} takes no options: the run's own hold, which its checkpoint keeps", file,
               line.command);
  }
}

}  // namespace

TrainedNetwork load_trained(const CommandLine& line, Configuration& config, const Task& task, Communicator& comm,
                            const Context& context) {
  agree(comm, [&] {
    if (comm.rank() == 0) refuse_overrides(line);
  });
  TrainedNetwork trained;
  trained.path = checkpoint_path(line.input);
  const Checkpoint checkpoint = load_checkpoint_everywhere(comm, trained.path);
  agree(comm, [&] {
    if (checkpoint.config.empty()) {
      user_error(
          "{} holds weights but no configuration, so its network is not known; start a run with it instead: "
          "train.init={} train.epochs=0",
          trained.path, trained.path);
    }
  });
  trained.provenance = checkpoint.provenance;
  config.load_text(comm, checkpoint.config, trained.path);
  const auto tuning = tune(line, config, task, comm, context, false);
  agree(comm, [&] {
    const NetworkOptions options = inference_options(config.options, micro_batch_size(config.options, comm));
    trained.objective = std::make_unique<Objective>(task.objective());
    trained.network = std::make_unique<Network>(task.model(task.sample_shape()), options, context, tuning.get());
    set_weights(*trained.network, context, checkpoint.weights, trained.path);
  });
  return trained;
}

std::unique_ptr<Predictor> make_predictor(const DataOptions& options, const Task& task, Communicator& comm,
                                          const Context& context, Network& network, const Objective& objective,
                                          const Dataset& data) {
  std::unique_ptr<Predictor> predictor;
  agree(comm, [&] {
    predictor = std::make_unique<Predictor>(comm, context, network, objective, data, options, task.views(data));
  });
  return predictor;
}

FullEvaluation evaluate_in_full(const DataOptions& options, Task& task, Communicator& comm, Predictor& predictor,
                                const Dataset& data) {
  FullEvaluation full;
  agree(comm, [&] { full.evaluator = task.evaluator(data, Depth::kFull); });
  full.run = evaluate(comm, predictor, data.size(), *full.evaluator);
  if (full.run.stopped != StopRequest::kNone) return full;
  try {
    full.evaluator->add_baselines(comm, options.train);
  } catch (const AgreedError& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    if (comm.rank() == 0) log_warning("the classical estimates are left out: {}", error.what());
  }
  agree(comm, [&] {
    if (comm.rank() == 0) full.evaluation = full.evaluator->evaluate();
  });
  return full;
}

}  // namespace petaflow
