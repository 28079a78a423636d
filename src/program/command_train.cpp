// train INPUT: everything is validated, then the run folder is made, then the network learns.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/ranges.h>

#include "base/activity.hpp"
#include "comm/agree.hpp"
#include "config/document.hpp"
#include "data/files.hpp"
#include "io/folder_lock.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "measure/binding.hpp"
#include "measure/peak.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"
#include "program/run_report.hpp"
#include "run/folder.hpp"
#include "run/manifest.hpp"
#include "run/results.hpp"
#include "run/tuning.hpp"
#include "train/stop_request.hpp"
#include "train/trainer.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

/// The test set is read at the end: it is looked into now, so that its faults are not found then.  With --check all of
/// its samples are read.
void check_test_set(Job& job) {
  const std::vector<std::string>& test = job.options.data.test;
  if (test.empty()) return;
  if (job.line.check) {
    const auto data = open_data(*job.comm, job.app, test, "data.test", DataRole::kEvaluate);
    check_all(*job.comm, *data, "data.test");
    return;
  }
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    const std::string found = job.app.scan(expand_files(test, "data.test"), DataRole::kEvaluate);
    check_shape(*job.app.open(found, "data.test", DataRole::kEvaluate), job.app.sample_shape(), "data.test");
  });
}

/// A batch that the set cannot fill would be trained on as a smaller one.
void check_batch(const Job& job, const Dataset& train) {
  if (job.options.train.batch <= train.size()) return;
  user_error("train.batch is {}, but data.train has {}; set train.batch to {} or less", job.options.train.batch,
             format_count(train.size(), "sample"), train.size());
}

void load_initial_weights(Job& job, Network& network) {
  if (job.options.train.init.empty()) return;
  const std::string path = checkpoint_path(job.options.train.init);
  const Checkpoint checkpoint = load_checkpoint_everywhere(*job.comm, path);
  agree(*job.comm, [&] { set_weights(network, job.context, checkpoint.weights, path); });
  job.say("weights from {}{}", path, checkpoint.checked ? "" : " (a file of another tool, without checksums)");
}

// Whether the metric to stop by is one, and on rank 0 whether it has a value on the validation set: that does not
// depend on the predictions.
void check_metric(const Job& job, const Dataset* validation, const Network& network) {
  std::vector<std::string> names = job.app.metrics();
  names.emplace_back("loss");
  const std::string metric = job.stop_metric();
  if (std::ranges::find(names, metric) == names.end()) {
    user_error("stop.metric \"{}\" is unknown; the metrics of {} are {}", metric, job.app.name(),
               fmt::join(names, ", "));
  }
  if (!job.options.stop.needs_metric() || !job.is_root()) return;
  Predictions zeros;
  zeros.count = validation->size();
  zeros.channels = network.output().shape.sample_size();
  zeros.outputs.resize(static_cast<std::size_t>(zeros.count * zeros.channels));
  zeros.scores = zeros.outputs;
  zeros.targets.resize(static_cast<std::size_t>(zeros.count * validation->targets()));
  const auto undefined = job.app.evaluate(*validation, zeros, {}, Depth::kQuick).undefined;
  if (const auto found = undefined.find(metric); found != undefined.end()) {
    user_error(
        "the training is to stop by {}, which has no value on data.validation: {}; set stop.metric to another one",
        metric, found->second);
  }
}

/// Whether another value of an option makes another network, or shows it other samples.
bool changes_what_is_learnt(const std::string& option) {
  static const std::set<std::string> harmless = {"data.threads",  "data.prefetch",   "data.hdf5_locking",
                                                 "data.cache_gb", "data.validation", "data.test"};
  if (harmless.contains(option)) return false;
  return option == "precision" || option == "kernels.f32" || option.starts_with("data.") ||
         option.starts_with("model.") || option.starts_with("augment.");
}

/// What is not as it was when the checkpoint was written.  Refused without resume.accept_changes where it changes what
/// is learnt; otherwise the run goes on with the new values and says so.
void check_changes(const Job& job, const ResumePoint& point) {
  std::vector<std::string> refused = changed_data_files(job);
  std::map<std::string, std::string> old;
  for (const Entry& entry : parse_document(point.checkpoint.config, point.path)) {
    old[entry.key] = to_toml(entry.value);
  }
  for (const Entry& entry : parse_document(job.schema.resolved(), "the input file")) {
    const std::string& before = old[entry.key];
    const std::string now = to_toml(entry.value);
    if (before.empty() || now == before) continue;  // an option that older versions had not
    const std::string change = fmt::format("{} = {} (was {})", entry.key, now, before);
    if (changes_what_is_learnt(entry.key)) refused.push_back(change);
    if (!changes_what_is_learnt(entry.key)) job.say("changed since the checkpoint: {}", change);
  }
  if (refused.empty()) return;
  if (!job.options.resume.accept_changes) {
    user_error("changed since {}: {}; --resume goes on with this only where resume.accept_changes = true", point.path,
               fmt::join(refused, "; "));
  }
  for (const std::string& change : refused) job.say("changed since the checkpoint, and accepted: {}", change);
}

void say_what_runs(const Job& job, Dataset& train, const Dataset* validation, TrainStep& step) {
  job.say("{}: {} x {} ({}), {}{}, batch {}{}", job.options.run.name, format_count(job.comm->size(), "rank"),
          format_count(job.context.threads, "thread"), job.comm->name(), format_count(train.size(), "training sample"),
          validation == nullptr ? "" : fmt::format(", {} for validation", validation->size()), job.options.train.batch,
          job.options.train.deterministic ? " in " + format_count(job.options.train.shards, "shard") : "");
  for (const std::string& note : train.notes()) job.say("data.train: {}", note);
  if (train.memory().empty()) {
    job.say("data.train is read from its files as it is needed");
  } else {
    job.say("data.train is held in memory by every rank: {} each (data.cache_gb)",
            format_bytes(train.memory().size_bytes()));
  }
  for (const std::string& sentence : describe_products(job.options)) job.say("{}", sentence);
  for (const StageReport& stage : step.network().report()) {
    for (const std::string& refusal : stage.refusals) job.say("{}", refusal);
  }
  const Network& network = step.network();
  if (kOnHost && network.arena_huge_page_bytes() < network.arena_bytes() / 2) {
    job.say("{}; steps are faster where /sys/kernel/mm/transparent_hugepage/enabled is madvise or always",
            describe_arena(network));
  }
}

/// Samples that are learnt from and judged by: a judgement of them says little.
void warn_of_common_files(const Job& job) {
  const DataOptions& data = job.options.data;
  for (const auto& [name, files] :
       {std::pair("data.validation", &data.validation), std::pair("data.test", &data.test)}) {
    const std::vector<std::string> common = common_files(data.train, *files);
    if (common.empty()) continue;
    const std::string others = common.size() > 1 ? fmt::format(" and {} more", common.size() - 1) : "";
    log_warning("{} and data.train have files in common: {}{}", name, common.front(), others);
  }
}

void say_estimate(Job& job, Trainer& trainer, TrainStep& step, std::size_t held_bytes) {
  const Network& network = step.network();
  const auto weights = static_cast<std::size_t>(network.parameter_elements()) * sizeof(float);
  job.say(
      "memory per rank: {} for a pass of {}, {} for weights, gradients and optimizer, {}and about 50 MiB for the "
      "program",
      format_bytes(network.arena_bytes() + trainer.inference().arena_bytes()), format_count(network.batch(), "sample"),
      format_bytes(2 * weights + step.optimizer_bytes()),
      held_bytes == 0 ? "" : format_bytes(held_bytes) + " for data held in memory (data.cache_gb), ");
  job.say("taking a step of {}", format_count(job.options.train.batch, "sample"));
  const double step_s = trainer.measure_step();
  job.say("time: {:.3f} s per step, {}, {} for all of them (validation comes on top)", step_s,
          format_count(trainer.total_steps(), "step"),
          format_duration(step_s * static_cast<double>(trainer.total_steps())));
  job.say("everything is in order; nothing was written");
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

void say_rates(Job& job, const FitResult& result) {
  const Rates& rates = result.rates;
  job.say("{}, {} in {:.1f} s", format_count(rates.steps, "step"), format_count(rates.samples, "sample"),
          rates.seconds);
  job.say("{:.1f} samples/s and {:.1f} GFLOP/s sustained, {:.1f} GFLOP/s at best", rates.sustained_samples_per_s,
          rates.sustained_gflops, rates.peak_gflops);
  job.say("{}", wrapped("time per rank: " + describe(result.times)));
}

int stopped(const Job& job, StopRequest request, std::int64_t steps) {
  job.say("stopped by {} after step {}; --resume goes on from there",
          request == StopRequest::kSignal ? "a signal" : "run.wall_time", steps);
  return kStopped;
}

/// The report is the last file of a run.
bool has_report(const Job& job) {
  const bool here = job.is_root() && std::filesystem::exists(job.run_folder() + "/" + kReportFile);
  return !broadcast_text(*job.comm, here ? "yes" : "").empty();
}

// ---- MLPerf's log ----

void begin_mllog(Job& job) {
  if (!job.options.mllog) return;
  agree(*job.comm, [&] {
    if (job.app.mlperf_benchmark().name.empty())
      user_error("mllog = true: {} is no benchmark of MLPerf HPC", job.app.name());
    if (job.line.resume)
      user_error("mllog = true: the time of a run for MLPerf is that of one training, without --resume");
    if (job.options.data.validation.empty()) user_error("mllog = true: a run for MLPerf needs data.validation");
  });
  if (job.is_root()) job.mllog = std::make_unique<MlLog>();
}

void write_mllog_settings(Job& job, std::int64_t train_samples, const Dataset* validation) {
  if (!job.options.mllog) return;
  const std::vector<Binding> bindings = gather_bindings(*job.comm, job.context.threads);
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    std::set<std::string> hosts;
    for (const Binding& binding : bindings) hosts.insert(binding.host);
    const auto& [data, train, optimizer, schedule] =
        std::tie(job.options.data, job.options.train, job.options.optimizer, job.options.schedule);
    const std::int64_t steps = (train_samples + train.batch - 1) / train.batch;
    const double warmup =
        schedule.warmup_epochs + static_cast<double>(schedule.warmup_steps) / static_cast<double>(steps);
    const bool decays = schedule.name == "step";
    MlLog& log = *job.mllog;
    log.open(job.run_folder() + "/" + kMllogFile);
    const std::vector<std::pair<const char*, nlohmann::json>> settings = {
        {"submission_benchmark", job.app.mlperf_benchmark().name},
        {"submission_org", "petaflow"},
        {"submission_division", "open"},
        {"submission_status", "research"},
        {"submission_platform", fmt::format("{} x {}", hosts.size(), bindings.front().processor)},
        {"number_of_nodes", hosts.size()},
        {"accelerators_per_node", kOnHost ? 0 : job.comm->size() / std::ssize(hosts)},
        {"seed", train.seed},
        {"global_batch_size", train.batch},
        {"train_samples", train_samples},
        {"eval_samples", validation->size()},
        {"opt_name", optimizer.name},
        {"opt_base_learning_rate", optimizer.lr},
        {"opt_weight_decay", optimizer.weight_decay},
        {"opt_learning_rate_warmup_epochs", warmup},
        {"opt_learning_rate_warmup_factor", 0},  // of the base rate, where the warm-up begins
        {"opt_learning_rate_decay_boundary_epochs", decays ? schedule.step_epochs : std::vector<double>()},
        {"opt_learning_rate_decay_factor", decays ? schedule.step_factor : 1}};
    for (const auto& [key, value] : settings) log.point(key, value);
    log.stop("init_stop");
  });
}

int leave_results(Job& job, const FitResult& result, TrainStep& step, Trainer& trainer, const Loss& loss,
                  const Dataset* validation, double peak) {
  const Activity activity("last evaluation", result.steps);
  agree(*job.comm, [&] { write_performance(job, result, step, peak); });
  trainer.inference().update(job.context);
  std::optional<AgreedError> failed;  // the report is written all the same
  try {
    const StopRequest request = write_evaluation(job, trainer.inference().network(), loss, validation);
    if (request != StopRequest::kNone) return stopped(job, request, result.steps);
  } catch (const AgreedError& error) {
    failed = error;
  }
  agree(*job.comm, [&] {
    if (job.is_root()) write_report(job.app, job.run_folder());
  });
  job.say("time by stage, curves and the rest: {}/{}", job.run_folder(), kReportFile);
  if (failed)
    throw AgreedError(failed->kind(),
                      fmt::format("the network is trained, but its evaluation failed: {}", failed->what()));
  return kDone;
}

}  // namespace

int command_train(Job& job) {
  job.load_input();
  begin_mllog(job);
  if (!job.line.check) watch_stop_signals();
  limit_wall_time(job.options.run.wall_time);
  std::unique_ptr<FolderLock> lock = check_run_folder(job);
  say_binding(job);
  const std::optional<ResumePoint> resumed = find_resume_point(job);
  std::unique_ptr<Dataset> train, validation;
  std::unique_ptr<Loss> loss;
  std::unique_ptr<TrainStep> step;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<MetricsLog> metrics;
  const Activity activity("opening data");
  agree(*job.comm, [&] {
    if (job.options.data.train.empty()) user_error("data.train is empty: name the files to train on");
  });
  train = open_data(*job.comm, job.app, job.options.data.train, "data.train", DataRole::kTrain);
  if (!job.options.data.validation.empty()) {
    validation = open_data(*job.comm, job.app, job.options.data.validation, "data.validation", DataRole::kEvaluate);
  }
  check_test_set(job);
  agree(*job.comm, [&] {
    check_batch(job, *train);
    loss = job.app.loss();
  });
  tune_convolutions(job, true);
  agree(*job.comm, [&] {
    step =
        std::make_unique<TrainStep>(*job.comm, job.context, job.options, job.app.model(job.app.sample_shape()), *loss);
    check_metric(job, validation.get(), step->network());
  });
  agree(*job.comm, [&] {
    if (job.is_root() && resumed) check_changes(job, *resumed);
    if (job.is_root()) warn_of_common_files(job);
  });
  if (!resumed) load_initial_weights(job, step->network());
  say_what_runs(job, *train, validation.get(), *step);
  agree(*job.comm, [&] {
    trainer = std::make_unique<Trainer>(job, *step, *loss, *train, validation.get());
    if (resumed) trainer->restore(resumed->checkpoint, resumed->path);
  });
  if (resumed) job.say("going on from {}", resumed->path);
  if (job.line.check) {
    check_all(*job.comm, *train, "data.train");
    if (validation) check_all(*job.comm, *validation, "data.validation");
    say_estimate(job, *trainer, *step,
                 train->memory().size_bytes() + (validation ? validation->memory().size_bytes() : 0));
    return kDone;
  }
  if (resumed && trainer->finished() && has_report(job)) {
    job.say("nothing is left to do: the run has ended after {}", format_count(trainer->steps(), "step"));
    return kDone;
  }

  take_new_run_folder(job, lock);
  metrics = open_run_folder(job, resumed ? std::optional(trainer->steps()) : std::nullopt);
  write_mllog_settings(job, train->size(), validation.get());
  const FitResult result = trainer->fit(metrics.get());
  if (result.stopped != StopRequest::kNone) return stopped(job, result.stopped, result.steps);  // nobody waits for more
  const double peak = measure_peaks(job.context).of(job.options.precision);
  if (result.rates.steps > 0) say_rates(job, result);
  return leave_results(job, result, *step, *trainer, *loss, validation.get(), peak);
}

}  // namespace petaflow
