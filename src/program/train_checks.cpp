#include "program/train_checks.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "comm/agree.hpp"
#include "comm/communicator.hpp"
#include "config/document.hpp"
#include "data/files.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "program/open_data.hpp"
#include "run/manifest.hpp"

namespace petaflow {
namespace {

/// Whether another value of an option makes another network, or shows it other samples.
bool changes_what_is_learnt(const std::string& option) {
  if (option == "data.validation" || option == "data.test") return false;
  return option == "precision" || option == "kernels.f32" || option == "comm.wire" || option.starts_with("data.") ||
         option.starts_with("model.") || option.starts_with("augment.");
}

/// Whether an option bears on results: on the weights, or on what is made of them.
bool bears_on_results(const std::string& option) {
  static const std::set<std::string> without = {"data.threads",  "data.prefetch", "data.hdf5_locking",
                                                "data.cache_gb", "data.cache",    "data.source"};
  static const std::vector<std::string> tables = {"log.", "resume.", "generate."};
  return !without.contains(option) &&
         std::ranges::none_of(tables, [&](const std::string& table) { return option.starts_with(table); });
}

}  // namespace

void check_source(const DataOptions& data, Communicator& comm) {
  agree(comm, [&] {
    if (comm.rank() != 0 || data.source.empty()) return;
    try {
      expand_files(data.train, "data.train");
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}; they are {}", error.what(), data.source));
    }
  });
}

void check_test_set(const std::vector<std::string>& test, const Task& task, Communicator& comm) {
  agree(comm, [&] {
    if (test.empty() || comm.rank() != 0) return;
    const std::string found = task.scan(expand_files(test, "data.test"), DataRole::kEvaluate);
    check_shape(*task.open(found, "data.test", DataRole::kEvaluate), task.sample_shape(), "data.test");
  });
}

void check_batch(const TrainOptions& options, const Dataset& train) {
  if (options.batch > train.size()) {
    user_error("train.batch is {}, but data.train has {}; set train.batch to {} or less", options.batch,
               format_count(train.size(), "sample"), train.size());
  }
  std::int64_t batch = options.batch;
  for (const std::int64_t epoch : options.batch_epochs) {
    batch *= options.batch_factor;
    if (batch <= train.size() || (options.epochs > 0 && epoch >= options.epochs)) continue;
    user_error(
        "train.batch = {} grows to {} after {}, but data.train has {}; remove {} and later ones from "
        "train.batch_epochs, or lower train.batch_factor or train.batch",
        options.batch, batch, format_count(epoch, "epoch"), format_count(train.size(), "sample"), epoch);
  }
}

std::string stop_metric(const StopOptions& options, const Task& task) {
  return options.metric.empty() ? task.metrics().front() : options.metric;
}

void check_metric(const StopOptions& options, Task& task, const Communicator& comm, const Dataset* validation,
                  const Network& network) {
  std::vector<std::string> names = task.metrics();
  names.emplace_back("loss");
  const std::string metric = stop_metric(options, task);
  if (std::ranges::find(names, metric) == names.end()) {
    user_error("stop.metric \"{}\" is unknown; the metrics of {} are {}", metric, task.name(), fmt::join(names, ", "));
  }
  if (!options.needs_metric() || comm.rank() != 0) return;
  PredictedBatch zeros;
  for (std::size_t i = 0; i < network.outputs(); ++i) {
    const Shape sample = network.output(i).shape.with_batch(1);
    const std::vector<float> values(static_cast<std::size_t>(sample.elements()));
    zeros.outputs.push_back({sample, values, values});
  }
  for (const TargetSpec& target : validation->targets()) {
    zeros.targets.push_back({target, std::vector<std::byte>(target.bytes())});
  }
  const std::unique_ptr<Evaluator> evaluator = task.evaluator(*validation, Depth::kQuick);
  for (std::int64_t sample = 0; sample < validation->size(); ++sample) {
    zeros.indices = {sample};
    evaluator->add(zeros);
  }
  Communicator alone;
  evaluator->merge(alone);
  const auto undefined = evaluator->evaluate().undefined;
  if (const auto found = undefined.find(metric); found != undefined.end()) {
    user_error(
        "the training is to stop by {}, which has no value on data.validation: {}; set stop.metric to another one",
        metric, found->second);
  }
}

Changes find_changes(Configuration& config, const ResumePoint& point) {
  Changes changes;
  changes.learnt = changed_data_files(config.run_folder(), config.options.data);
  std::map<std::string, std::string> old;
  for (const Entry& entry : parse_document(point.checkpoint.config, point.path)) {
    old[entry.key] = to_toml(entry.value);
  }
  for (const Entry& entry : parse_document(config.resolved(), "the input file")) {
    const std::string& before = old[entry.key];
    const std::string now = to_toml(entry.value);
    if (before.empty() || now == before) continue;  // an option that older versions had not
    if (!bears_on_results(entry.key)) continue;
    if (entry.key.starts_with("evaluate.") && now == "[]") continue;  // found by the run, which finds it again
    (changes_what_is_learnt(entry.key) ? changes.learnt : changes.others)
        .push_back(fmt::format("{} = {} (was {})", entry.key, now, before));
  }
  return changes;
}

void check_changes(const Changes& changes, const ResumeOptions& options, const std::string& path) {
  for (const std::string& change : changes.others) log_info("changed since the checkpoint: {}", change);
  if (!changes.learnt.empty() && !options.accept_changes) {
    user_error("changed since {}: {}; --resume goes on with this only where resume.accept_changes = true", path,
               fmt::join(changes.learnt, "; "));
  }
  for (const std::string& change : changes.learnt) log_info("changed since the checkpoint, and accepted: {}", change);
}

void warn_of_rate(const CommonOptions& options, const Schedule& schedule, std::int64_t steps) {
  if (steps == 0) return;
  if (options.optimizer.lr == 0) log_warning("optimizer.lr is 0: the weights stay as they are");
  if (options.optimizer.name == "yellowfin" && options.optimizer.lr < 0.1) {
    log_warning("optimizer.lr is a factor of the rate that yellowfin finds, which {} makes small; 1 takes it as it is",
                options.optimizer.lr);
  }
  if (schedule.warmup_steps() >= steps) {
    log_warning(
        "the learning rate rises for {}, but the run has {}: it does not reach optimizer.lr; lower "
        "schedule.warmup_steps or schedule.warmup_epochs",
        format_count(schedule.warmup_steps(), "step"), steps);
  }
}

void warn_of_noise_scale(const CommonOptions& options, int ranks) {
  const TrainOptions& train = options.train;
  const std::int64_t micro_batches = train.deterministic ? train.shards : ranks * train.accumulate;
  if (!options.log.noise_scale || micro_batches > 1 || !train.batch_epochs.empty()) return;
  log_warning(
      "log.noise_scale compares gradients of parts of a batch, and here a step is one micro-batch of one rank: set "
      "train.accumulate to 2 or more, or start more ranks");
}

void warn_of_common_files(const DataOptions& data) {
  for (const auto& [name, files] :
       {std::pair("data.validation", &data.validation), std::pair("data.test", &data.test)}) {
    const std::vector<std::string> common = common_files(data.train, *files);
    if (common.empty()) continue;
    const std::string others = common.size() > 1 ? fmt::format(" and {} more", common.size() - 1) : "";
    log_warning("{} and data.train have files in common: {}{}", name, common.front(), others);
  }
}

}  // namespace petaflow
