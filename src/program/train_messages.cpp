#include "program/train_messages.hpp"

#include <algorithm>
#include <filesystem>

#include "io/log.hpp"
#include "io/progress.hpp"
#include "measure/rates.hpp"
#include "program/commands.hpp"

namespace petaflow {
namespace {

void say_where_held(const char* name, Dataset& data) {
  if (data.memory().empty()) {
    log_info("{} is read from its files: each rank reads the samples of its own batches", name);
  } else {
    log_info("{} is held in memory by every rank: {} each (data.cache_gb)", name,
             format_bytes(data.memory().size_bytes()));
  }
}

/// Lines of at most 80 characters, broken behind commas.
std::string wrapped(std::string text) {
  constexpr std::size_t kWidth = 80;
  const std::string indent = "\n  ";
  for (std::size_t begin = 0; text.size() - begin > kWidth;) {
    const std::size_t comma = text.rfind(", ", begin + kWidth - 1);
    if (comma == std::string::npos || comma <= begin) break;
    text.replace(comma + 1, 1, indent);
    begin = comma + 2;
  }
  return text;
}

/// "32, 64 after 30 epochs".
std::string batches(const TrainOptions& options) {
  std::int64_t batch = options.batch;
  std::string text = fmt::format("{}", batch);
  for (const std::int64_t epoch : options.batch_epochs) {
    batch *= options.batch_factor;
    text += fmt::format(", {} after {}", batch, format_count(epoch, "epoch"));
  }
  return text;
}

}  // namespace

void say_what_runs(const CommonOptions& options, const Communicator& comm, int threads, const Graph& graph,
                   Dataset& train, Dataset* validation, TrainStep& step) {
  const UpdateOptions& update = options.update;
  std::string groups;
  if (update.groups > 1 || update.servers > 0) groups = " in " + format_count(update.groups, "group");
  if (update.servers > 0) groups += " with " + format_count(update.servers, "parameter server");
  if (update.colocate_servers) groups += " among them";
  log_info("{}: {}{} x {} ({}), {}{}, batch {}{}", options.run.name, format_count(comm.size(), "rank"), groups,
           format_count(threads, "thread"), comm.name(), format_count(train.size(), "training sample"),
           validation == nullptr ? "" : fmt::format(", {} for validation", validation->size()), batches(options.train),
           options.train.deterministic ? " in " + format_count(options.train.shards, "shard") : "");
  for (const std::string& note : train.notes()) log_info("data.train: {}", note);
  say_where_held("data.train", train);
  if (validation != nullptr) say_where_held("data.validation", *validation);
  for (const std::string& sentence : describe_products(options)) log_info("{}", sentence);
  for (const StageReport& stage : step.network().report()) {
    for (const std::string& refusal : stage.refusals) log_info("{}", refusal);
  }
  if (const std::string exchange = step.describe_exchange(); !exchange.empty()) log_info("{}", exchange);
  if (update.average_every > 0) {
    log_info(
        "groups average {} after {} of each{}", update.average_late > 0 ? "weights" : "weights and optimizer state",
        format_count(update.average_every, "step"),
        update.average_late > 0
            ? fmt::format(", and take them {} later (update.average_late)", format_count(update.average_late, "step"))
            : "");
  }
  const Network& network = step.network();
  const std::string recompute = describe_recompute(graph, network_options(options, network.batch()), network);
  if (!recompute.empty()) log_info("{}", recompute);
  if (kOnHost && network.arena_huge_page_bytes() < network.arena_bytes() / 2) {
    log_info("{}; steps are faster where /sys/kernel/mm/transparent_hugepage/enabled is madvise or always",
             describe_arena(network));
  }
}

void say_estimate(const CommonOptions& options, Trainer& trainer, TrainStep& step, Inference& inference,
                  std::size_t held_bytes) {
  const Network& network = step.network();
  const bool planned = network.gradient() != nullptr;
  const std::size_t gradients =
      planned ? 0 : (options.update.lag + 1) * static_cast<std::size_t>(network.parameter_elements()) * sizeof(float);
  log_info("memory per rank: {} for weights and a micro-batch of {}{}, {} for {}, {}and about 50 MiB for the program",
           format_bytes(network.arena_bytes() + inference.arena_bytes()), format_count(network.batch(), "sample"),
           planned ? " with its gradient" : "", format_bytes(gradients + step.optimizer_bytes()),
           planned ? "the optimizer" : "gradients and optimizer",
           held_bytes == 0 ? "" : format_bytes(held_bytes) + " for data held in memory (data.cache_gb), ");
  log_info("taking a step of {}", format_count(group_options(options).batch, "sample"));
  const double step_s = trainer.measure_step();
  const auto groups = static_cast<double>(options.update.groups);
  log_info("time: {:.3f} s per step, {}{}, {} for all of them (validation comes on top)", step_s,
           format_count(trainer.total_steps(), "step"),
           groups > 1 ? fmt::format(", {} at a time", options.update.groups) : "",
           format_duration(step_s * static_cast<double>(trainer.total_batches()) / groups));
  log_info("everything is in order; nothing was written");
}

void warn_of_run_folder(const CommandLine& line, const std::string& folder) {
  namespace fs = std::filesystem;
  if (line.overwrite || line.resume || !fs::exists(folder) || fs::is_empty(folder)) return;
  log_warning("{} exists: the training will want another run.name, --resume or --overwrite", folder);
}

void say_rates(const FitResult& result) {
  const Rates& rates = result.rates;
  log_info(
      "{}, {} in {:.1f} s{}", format_count(rates.steps, "step"), format_count(rates.samples, "sample"), rates.seconds,
      rates.steps < result.steps ? fmt::format(" since the last resume, {} in all", format_count(result.steps, "step"))
                                 : "");
  log_info("{:.1f} samples/s and {:.1f} GFLOP/s sustained, {:.1f} GFLOP/s at best", rates.sustained_samples_per_s,
           rates.sustained_gflops, rates.peak_gflops);
  if (result.noise_scale) log_info("gradient-noise scale: {:.3g} samples", *result.noise_scale);
  if (result.loss_scale) {
    log_info("losses are multiplied by {} at the end; {} skipped, whose gradients were not finite",
             result.loss_scale->scale, format_count(result.loss_scale->skipped, "update"));
  }
  log_info("{}", wrapped("time per rank: " + describe(result.times)));
  if (const std::string text = describe(result.communication); !text.empty()) log_info("{}", wrapped(text));
  if (result.service.empty()) return;
  log_info("{}", wrapped(describe(result.service)));
  std::int64_t gradients = 0, sum = 0, most = 0, queue = 0;
  for (const LayerService& service : result.service) {
    for (std::int64_t staleness = 0; staleness < std::ssize(service.staleness); ++staleness) {
      const std::int64_t count = service.staleness[static_cast<std::size_t>(staleness)];
      gradients += count;
      sum += staleness * count;
    }
    most = std::max(most, std::ssize(service.staleness) - 1);
    queue += service.queue_sum;
  }
  const auto mean = [&](std::int64_t of) {
    return static_cast<double>(of) / static_cast<double>(std::max<std::int64_t>(gradients, 1));
  };
  const auto [least, often] = std::ranges::minmax(result.group_steps);
  log_info("gradient staleness: mean {:.2f}, max {} updates; mean queue at a server {:.2f} (1: no gradient waited)",
           mean(sum), most, mean(queue));
  log_info("steps of a group: {} to {}", least, often);
}

}  // namespace petaflow
