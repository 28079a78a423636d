#include "program/train_on.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/ranges.h>

#include "base/activity.hpp"
#include "comm/agree.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "io/write_lock.hpp"
#include "measure/peak.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"
#include "program/run_report.hpp"
#include "program/train_checks.hpp"
#include "program/train_evaluation.hpp"
#include "program/train_messages.hpp"
#include "program/train_mllog.hpp"
#include "run/files.hpp"
#include "run/folder.hpp"
#include "run/manifest.hpp"
#include "run/recorder.hpp"
#include "run/results.hpp"
#include "run/tuning.hpp"
#include "train/scheme_checks.hpp"
#include "train/stop_request.hpp"
#include "train/trainer.hpp"
#include "train/validation.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

void load_initial_weights(const std::string& from, Network& network, Communicator& comm, const Context& context) {
  if (from.empty()) return;
  const std::string path = checkpoint_path(from);
  const Checkpoint checkpoint = load_checkpoint_everywhere(comm, path);
  agree(comm, [&] {
    for (const NamedArray& array : checkpoint.weights) {
      if (std::ranges::all_of(array.values, [](float value) { return std::isfinite(value); })) continue;
      user_error("train.init: {} has numbers in {} that are not finite", path, array.name);
    }
    set_weights(network, context, checkpoint.weights, path);
  });
  log_info("weights from {}{}", path, checkpoint.checked ? "" : " (a file of another tool, without checksums)");
}

struct DataSets {
  std::unique_ptr<Dataset> train, validation;  // null: there is none
};

/// Opens what is trained on, and looks at the rest.  On all ranks.
DataSets open_data_sets(const CommonOptions& options, Task& task, Communicator& comm) {
  DataSets sets;
  agree(comm, [&] {
    if (options.data.train.empty()) user_error("data.train is empty: name the files to train on");
  });
  check_source(options.data, comm);
  sets.train = open_data(comm, task, options.data.train, "data.train", DataRole::kTrain);
  agree(comm, [&] { check_batch(options.train, *sets.train); });
  if (!options.data.validation.empty()) {
    sets.validation = open_data(comm, task, options.data.validation, "data.validation", DataRole::kEvaluate);
  }
  check_test_set(options.data.test, task, comm);
  return sets;
}

/// Predictions are made by a network of its own where the trained one is in bf16 and there is something to predict.
std::unique_ptr<Inference> make_inference(const CommonOptions& options, const Task& task, const Context& context,
                                          Network& trained, ConvTuning* tuning) {
  const DataOptions& data = options.data;
  if (options.precision == "f32" || (data.validation.empty() && data.test.empty())) {
    return std::make_unique<Inference>(trained);
  }
  return std::make_unique<Inference>(trained, task.model(task.sample_shape()),
                                     inference_options(options, trained.batch()), context, tuning);
}

/// What goes on from epoch to epoch: each part refers to those before it.
struct Training {
  std::unique_ptr<Inference> inference;
  std::unique_ptr<Predictor> predictor;
  std::unique_ptr<Validation> validation;
  std::unique_ptr<Trainer> trainer;
};

Training make_training(const CommonOptions& options, Task& task, const Context& context, Communicator& comm,
                       const DataSets& data, const Objective& objective, TrainStep& step, ConvTuning* tuning) {
  Training training;
  training.inference = make_inference(options, task, context, step.network(), tuning);
  if (data.validation) {
    const Dataset& set = *data.validation;
    training.predictor = std::make_unique<Predictor>(comm, context, training.inference->network(), objective, set,
                                                     options.data, task.views(set));
    training.validation = std::make_unique<Validation>(Validation{*training.inference, *training.predictor, set.size(),
                                                                  [&] { return task.evaluator(set, Depth::kQuick); }});
  }
  training.trainer =
      std::make_unique<Trainer>(trainer_options(options, stop_metric(options.stop, task)), comm, context, step,
                                *data.train, task.augmentation(*data.train), training.validation.get());
  return training;
}

/// train --check: reads all data and takes a step.
void check_training(const CommandLine& line, const CommonOptions& options, const std::string& folder, Task& task,
                    Communicator& comm, const DataSets& data, Training& training, TrainStep& step) {
  check_all(comm, *data.train, "data.train");
  if (data.validation) check_all(comm, *data.validation, "data.validation");
  if (const std::vector<std::string>& test = options.data.test; !test.empty()) {
    check_all(comm, *open_data(comm, task, test, "data.test", DataRole::kEvaluate), "data.test");
  }
  say_estimate(options, *training.trainer, step, *training.inference,
               data.train->memory().size_bytes() + (data.validation ? data.validation->memory().size_bytes() : 0));
  if (comm.rank() == 0) warn_of_run_folder(line, folder);
}

/// The listener that writes into the run folder while the training goes on: on rank 0, but for parts of the trace.
std::unique_ptr<TraceRecorder> make_listener(Configuration& config, const Task& task, const RunIdentity& identity,
                                             Communicator& comm, int threads, std::unique_ptr<MetricsLog> metrics,
                                             std::unique_ptr<MlLog> mllog) {
  const CommonOptions& options = config.options;
  if (comm.rank() != 0) return std::make_unique<TraceRecorder>(options.log.trace_steps, "");
  RecorderOptions recorder{config.run_folder(),    options.checkpoint.keep, task.description(), config.resolved(), {},
                           task.mlperf_benchmark()};
  recorder.provenance = [identity, &comm, threads] { return provenance(identity, comm, threads); };
  return std::make_unique<RunRecorder>(std::move(recorder), options.log.trace_steps, std::move(metrics),
                                       std::move(mllog));
}

/// The report is the last file of a run; where the evaluation failed there is a report without one.
bool is_complete(Communicator& comm, const std::string& folder, bool evaluates) {
  const auto has = [&](const char* file) { return std::filesystem::exists(folder + "/" + file); };
  const bool complete = comm.rank() == 0 && has(kReportFile) && (!evaluates || has(kEvaluationFile));
  return !broadcast_text(comm, complete ? "yes" : "").empty();
}

/// What cannot be resumed at all is said first, with what changed; then what has to be accepted.
void restore(Configuration& config, const ResumePoint& point, Trainer& trainer, Communicator& comm) {
  Changes changes;
  agree(comm, [&] {
    if (comm.rank() == 0) changes = find_changes(config, point);
  });
  const std::string learnt = broadcast_text(comm, fmt::format("{}", fmt::join(changes.learnt, "; ")));
  agree(comm, [&] {
    try {
      trainer.restore(point.checkpoint, point.path);
    } catch (const Error& error) {
      if (learnt.empty()) throw;
      throw Error(error.kind(), fmt::format("{}; changed since: {}", error.what(), learnt));
    }
    if (comm.rank() == 0) check_changes(changes, config.options.resume, point.path);
  });
}

int other_groups(Configuration& config, std::int64_t groups) {
  config.regroup(groups);
  return kOtherGroups;
}

int stopped(StopRequest request, std::int64_t steps) {
  log_info("stopped by {} after step {}; --resume goes on from there",
           request == StopRequest::kSignal ? "a signal" : "run.wall_time", steps);
  return kStopped;
}

}  // namespace

int train_on(const CommandLine& line, Configuration& config, Task& task, const Reporter& reporter, Communicator& comm,
             const Groups& groups) {
  const CommonOptions& options = config.options;
  const std::string folder = config.run_folder();
  const Context context;
  std::unique_ptr<MlLog> mllog = begin_mllog(line, options, task, comm);
  if (!line.check) watch_stop_signals();
  limit_wall_time(options.run.wall_time);
  std::unique_ptr<WriteLock> lock =
      check_run_folder(comm, folder, {line.overwrite || line.check, line.resume, !line.check});
  if (groups.servers == nullptr) say_binding(comm, context.threads);  // otherwise it was said of all ranks
  std::optional<ResumePoint> resumed;
  if (line.resume) resumed = find_resume_point(comm, folder);
  if (resumed && options.update.tune_groups > 0) {
    const auto search = state_from_text(resumed->checkpoint.training, resumed->path).search;
    if (search && search->groups() != options.update.groups) {
      log_info("{}: update.tune_groups has come down to {}", resumed->path, format_count(search->groups(), "group"));
      return other_groups(config, search->groups());
    }
  }
  agree(comm, [&] {  // what is wrong with its options is said before data are read
    check_scheme(task.model(task.sample_shape()), options.optimizer, options.update, options.comm, groups.mine.size());
  });
  const Activity activity("opening data");
  const DataSets data = open_data_sets(options, task, comm);
  std::unique_ptr<Objective> objective;
  agree(comm, [&] { objective = std::make_unique<Objective>(task.objective()); });
  const auto tuning = tune(line, config, task, comm, context, true);
  std::unique_ptr<TrainStep> step;
  agree(comm, [&] {
    step = std::make_unique<TrainStep>(groups.mine, context, step_options(options), task.model(task.sample_shape()),
                                       *objective, tuning.get());
    check_metric(options.stop, task, comm, data.validation.get(), step->network());
  });
  agree(comm, [&] {
    if (comm.rank() == 0) warn_of_common_files(options.data);
  });
  if (!resumed) load_initial_weights(options.train.init, step->network(), comm, context);
  say_what_runs(options, comm, context.threads, task.model(task.sample_shape()), *data.train, data.validation.get(),
                *step);

  Training training;
  agree(comm, [&] { training = make_training(options, task, context, comm, data, *objective, *step, tuning.get()); });
  if (resumed) restore(config, *resumed, *training.trainer, comm);
  Trainer* const trainer = training.trainer.get();
  if (comm.rank() == 0) {
    warn_of_rate(options, trainer->schedule(), trainer->total_steps());
    warn_of_noise_scale(options, groups.mine.size());
  }
  if (resumed) log_info("going on from {}", resumed->path);
  if (line.check) {
    check_training(line, options, folder, task, comm, data, training, *step);
    return kDone;
  }
  const bool evaluates = data.validation != nullptr || !options.data.test.empty();
  if (resumed && trainer->finished() && is_complete(comm, folder, evaluates)) {
    log_info("nothing is left to do: the run has ended after {}", format_count(trainer->steps(), "step"));
    return kDone;
  }

  if (resumed && trainer->finished()) {
    log_info("nothing is left to train after {}; evaluation and report are made",
             format_count(trainer->steps(), "step"));
  }

  take_new_run_folder(comm, folder, line.overwrite, lock);
  const RunIdentity identity = run_identity(line, options, task);
  std::unique_ptr<MetricsLog> metrics =
      open_run_folder(comm, folder, resumed ? std::optional(trainer->steps()) : std::nullopt, config.resolved());
  agree(comm, [&] {
    if (tuning && comm.rank() == 0) {
      write_tuning(folder + "/" + kTuningFile, machine_text(context.threads), tuning->table);
    }
  });
  write_manifest(comm, context.threads, identity, options.data, folder);
  write_mllog_settings(mllog.get(), folder + "/" + kMllogFile, task.mlperf_benchmark().name, options, comm,
                       context.threads, data.train->size(), *trainer, *step, data.validation.get());
  const auto listener =
      make_listener(config, task, identity, comm, context.threads, std::move(metrics), std::move(mllog));
  if (groups.servers != nullptr) trainer->connect(*groups.servers);
  if (groups.across != nullptr) trainer->average_over(*groups.across);
  const FitResult result = trainer->fit(*listener);
  listener->write_trace(comm);
  if (result.stopped != StopRequest::kNone) return stopped(result.stopped, result.steps);  // nobody waits for more
  if (result.end == FitEnd::kGroups) return other_groups(config, result.groups);
  const double peak = measure_peaks(context).of(options.precision);
  if (result.rates.steps > 0) say_rates(result);

  const Activity last("last evaluation", result.steps);
  agree(comm, [&] {
    if (comm.rank() != 0 || result.rates.steps == 0) return;  // no step: all were done before a resume
    write_performance(folder, result, *step, {comm.size(), context.threads, options.train.batch, peak});
  });
  training.inference->update(context);
  std::optional<AgreedError> failed;  // the report is written all the same
  try {
    StopRequest request =
        calibrate(config, task, comm, context, training.inference->network(), *objective, data.validation.get());
    if (request != StopRequest::kNone) return stopped(request, result.steps);
    request = evaluate_at_end(config, task, reporter, comm, context, training.inference->network(), *objective,
                              data.validation.get());
    if (request != StopRequest::kNone) return stopped(request, result.steps);
  } catch (const AgreedError& error) {
    failed = error;
  }
  agree(comm, [&] {
    if (comm.rank() == 0) write_report({task.name(), task.description()}, reporter, folder);
  });
  log_info("time by stage, curves and the rest: {}/{}", folder, kReportFile);
  if (failed) {
    throw AgreedError(failed->kind(),
                      fmt::format("the network is trained, but its evaluation failed: {}", failed->what()));
  }
  return kDone;
}

}  // namespace petaflow
