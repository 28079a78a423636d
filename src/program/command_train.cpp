// train INPUT: everything is validated, then the run folder is made, then the network learns.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/ranges.h>

#include "base/activity.hpp"
#include "comm/agree.hpp"
#include "data/files.hpp"
#include "io/folder_lock.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "measure/binding.hpp"
#include "measure/peak.hpp"
#include "measure/rates.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"
#include "program/run_report.hpp"
#include "program/train_checks.hpp"
#include "run/files.hpp"
#include "run/folder.hpp"
#include "run/manifest.hpp"
#include "run/mllog.hpp"
#include "run/recorder.hpp"
#include "run/results.hpp"
#include "run/tuning.hpp"
#include "servers/optimized_layer.hpp"
#include "servers/serve.hpp"
#include "servers/session.hpp"
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

void say_where_held(const char* name, Dataset& data) {
  if (data.memory().empty()) {
    log_info("{} is read from its files: each rank reads the samples of its own batches", name);
  } else {
    log_info("{} is held in memory by every rank: {} each (data.cache_gb)", name,
             format_bytes(data.memory().size_bytes()));
  }
}

void say_what_runs(const CommonOptions& options, const Communicator& comm, int threads, const Graph& graph,
                   Dataset& train, Dataset* validation, TrainStep& step) {
  const UpdateOptions& update = options.update;
  std::string groups;
  if (update.groups > 1 || update.servers > 0) groups = " in " + format_count(update.groups, "group");
  if (update.servers > 0) groups += " with " + format_count(update.servers, "parameter server");
  log_info("{}: {}{} x {} ({}), {}{}, batch {}{}", options.run.name, format_count(comm.size(), "rank"), groups,
           format_count(threads, "thread"), comm.name(), format_count(train.size(), "training sample"),
           validation == nullptr ? "" : fmt::format(", {} for validation", validation->size()), options.train.batch,
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
  const auto weights = static_cast<std::size_t>(network.parameter_elements()) * sizeof(float);
  log_info(
      "memory per rank: {} for a micro-batch of {}, {} for weights, gradients and optimizer, {}and about 50 MiB for "
      "the "
      "program",
      format_bytes(network.arena_bytes() + inference.arena_bytes()), format_count(network.batch(), "sample"),
      format_bytes(2 * weights + step.optimizer_bytes()),
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

/// Warns of faults of the folder that --check lets pass, because it may be run while the folder is in use.
void warn_of_run_folder(const CommandLine& line, const std::string& folder) {
  namespace fs = std::filesystem;
  if (line.overwrite || line.resume || !fs::exists(folder) || fs::is_empty(folder)) return;
  log_warning("{} exists: the training will want another run.name, --resume or --overwrite", folder);
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

void say_rates(const FitResult& result) {
  const Rates& rates = result.rates;
  log_info("{}, {} in {:.1f} s", format_count(rates.steps, "step"), format_count(rates.samples, "sample"),
           rates.seconds);
  log_info("{:.1f} samples/s and {:.1f} GFLOP/s sustained, {:.1f} GFLOP/s at best", rates.sustained_samples_per_s,
           rates.sustained_gflops, rates.peak_gflops);
  if (result.noise_scale) log_info("gradient-noise scale: {:.3g} samples", *result.noise_scale);
  log_info("{}", wrapped("time per rank: " + describe(result.times)));
  if (const std::string text = describe(result.communication); !text.empty()) log_info("{}", wrapped(text));
  if (result.service.empty()) return;
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
  log_info("staleness of gradients: {:.2f} updates in the mean, {} at most; {:.2f} gradients at a server", mean(sum),
           most, mean(queue));
  log_info("steps of a group: {} to {}", least, often);
}

int stopped(StopRequest request, std::int64_t steps) {
  log_info("stopped by {} after step {}; --resume goes on from there",
           request == StopRequest::kSignal ? "a signal" : "run.wall_time", steps);
  return kStopped;
}

/// The report is the last file of a run.
bool has_report(Communicator& comm, const std::string& folder) {
  const bool here = comm.rank() == 0 && std::filesystem::exists(folder + "/" + kReportFile);
  return !broadcast_text(comm, here ? "yes" : "").empty();
}

// ---- MLPerf's log ----

/// On rank 0, where there is to be one.
std::unique_ptr<MlLog> begin_mllog(const CommandLine& line, const CommonOptions& options, const Task& task,
                                   Communicator& comm) {
  if (!options.mllog) return nullptr;
  agree(comm, [&] {
    if (task.mlperf_benchmark().name.empty()) user_error("mllog = true: {} is no benchmark of MLPerf HPC", task.name());
    if (line.resume) user_error("mllog = true: the time of a run for MLPerf is that of one training, without --resume");
    if (options.data.validation.empty()) user_error("mllog = true: a run for MLPerf needs data.validation");
  });
  return comm.rank() == 0 ? std::make_unique<MlLog>() : nullptr;
}

void write_mllog_settings(MlLog* log, const std::string& path, const std::string& benchmark,
                          const CommonOptions& options, Communicator& comm, int threads, std::int64_t train_samples,
                          const Dataset* validation) {
  if (!options.mllog) return;
  const std::vector<Binding> bindings = gather_bindings(comm, threads);
  agree(comm, [&] {
    if (log == nullptr) return;
    std::set<std::string> hosts;
    for (const Binding& binding : bindings) hosts.insert(binding.host);
    const auto& [data, train, optimizer, schedule] =
        std::tie(options.data, options.train, options.optimizer, options.schedule);
    const std::int64_t steps = (train_samples + train.batch - 1) / train.batch;
    const double warmup =
        schedule.warmup_epochs + static_cast<double>(schedule.warmup_steps) / static_cast<double>(steps);
    const bool decays = schedule.name == "step";
    log->open(path);
    const std::vector<std::pair<const char*, nlohmann::json>> settings = {
        {"submission_benchmark", benchmark},
        {"submission_org", "petaflow"},
        {"submission_division", "open"},
        {"submission_status", "research"},
        {"submission_platform", fmt::format("{} x {}", hosts.size(), bindings.front().processor)},
        {"number_of_nodes", hosts.size()},
        {"accelerators_per_node", kOnHost ? 0 : comm.size() / std::ssize(hosts)},
        {"seed", train.seed},
        {"global_batch_size", train.batch},
        {"train_samples", train_samples},
        {"eval_samples", validation->size()},
        {"opt_name", optimizer.name},
        {"opt_base_learning_rate", scaled_rate(options)},
        {"opt_weight_decay", optimizer.weight_decay},
        {"opt_learning_rate_warmup_epochs", warmup},
        {"opt_learning_rate_warmup_factor", 0},  // of the base rate, where the warm-up begins
        {"opt_learning_rate_decay_boundary_epochs", decays ? schedule.step_epochs : std::vector<double>()},
        {"opt_learning_rate_decay_factor", decays ? schedule.step_factor : 1}};
    for (const auto& [key, value] : settings) log->point(key, value);
    log->stop("init_stop");
  });
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

/// Evaluates the trained network on data.test, else on `validation`; nothing where there is neither.
/// @return  the request that ended the evaluation before it was through; nothing is written then
StopRequest leave_evaluation(const Configuration& config, Task& task, const Reporter& reporter, Communicator& comm,
                             const Context& context, Network& network, const Objective& objective,
                             const Dataset* validation) {
  const DataOptions& options = config.options.data;
  const bool test = !options.test.empty();
  if (!test && validation == nullptr) return StopRequest::kNone;
  EvaluationRecord record;
  record.set = test ? "data.test" : "data.validation";
  record.files = test ? options.test : options.validation;
  const Dataset* data = validation;
  std::unique_ptr<Dataset> opened;
  if (test) {
    opened = open_data(comm, task, options.test, "data.test", DataRole::kEvaluate);
    data = opened.get();
  }
  const auto predictor = make_predictor(options, task, comm, context, network, objective, *data);
  const FullEvaluation full = evaluate_in_full(options, task, comm, *predictor, *data);
  if (full.run.stopped != StopRequest::kNone) return full.run.stopped;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    record.seen_in_training = common_files(options.train, record.files);
    record.samples = data->size();
    record.loss = full.run.loss;
    record.evaluation = full.evaluation;
    record.results = reporter.results(*full.evaluator);
    record.curves = reporter.curves(*full.evaluator);
    write_evaluation(config.run_folder(), record);
    const std::string table = reporter.table(*full.evaluator);
    if (!table.empty()) log_info("on the {} of {}:\n{}", format_count(data->size(), "sample"), record.set, table);
  });
  return StopRequest::kNone;
}

/// The listener that writes into the run folder while the training goes on: on rank 0, but for parts of the trace.
std::unique_ptr<TraceRecorder> make_listener(const Configuration& config, const Task& task, const RunIdentity& identity,
                                             Communicator& comm, int threads, std::unique_ptr<MetricsLog> metrics,
                                             std::unique_ptr<MlLog> mllog) {
  const CommonOptions& options = config.options;
  if (comm.rank() != 0) return std::make_unique<TraceRecorder>(options.log.trace_steps, "");
  RecorderOptions recorder{
      config.run_folder(),    options.checkpoint.keep, task.description(), config.schema.resolved(), {},
      task.mlperf_benchmark()};
  recorder.provenance = [identity, &comm, threads] { return provenance(identity, comm, threads); };
  return std::make_unique<RunRecorder>(std::move(recorder), options.log.trace_steps, std::move(metrics),
                                       std::move(mllog));
}

/// A worker's place among groups.
struct Groups {
  Communicator& mine;                // the members of its group; where there are none all workers
  ServerSession* servers = nullptr;  // where they share weights so
  Communicator* across = nullptr;    // where they average them: who has this worker's number in each group
};

/// @param comm  all ranks that train
int train_on(const CommandLine& line, Configuration& config, Task& task, const Reporter& reporter, Communicator& comm,
             const Groups& groups) {
  const CommonOptions& options = config.options;
  const std::string folder = config.run_folder();
  const Context context;
  std::unique_ptr<MlLog> mllog = begin_mllog(line, options, task, comm);
  if (!line.check) watch_stop_signals();
  limit_wall_time(options.run.wall_time);
  std::unique_ptr<FolderLock> lock =
      check_run_folder(comm, folder, {line.overwrite || line.check, line.resume, !line.check});
  say_binding(comm, context.threads);
  std::optional<ResumePoint> resumed;
  if (line.resume) resumed = find_resume_point(comm, folder);
  std::unique_ptr<Dataset> train, validation;
  const Activity activity("opening data");
  agree(comm, [&] {
    if (options.data.train.empty()) user_error("data.train is empty: name the files to train on");
  });
  check_source(options.data, comm);
  train = open_data(comm, task, options.data.train, "data.train", DataRole::kTrain);
  if (!options.data.validation.empty()) {
    validation = open_data(comm, task, options.data.validation, "data.validation", DataRole::kEvaluate);
  }
  check_test_set(line, options, task, comm);
  std::unique_ptr<Objective> objective;
  agree(comm, [&] {
    check_batch(options.train, *train);
    objective = std::make_unique<Objective>(task.objective());
  });
  const auto tuning = tune(line, config, task, comm, context, true);
  std::unique_ptr<TrainStep> step;
  agree(comm, [&] {
    step = std::make_unique<TrainStep>(groups.mine, context, step_options(options), task.model(task.sample_shape()),
                                       *objective, tuning.get());
    check_metric(options.stop, task, comm, validation.get(), step->network());
  });
  agree(comm, [&] {
    if (comm.rank() == 0 && resumed) check_changes(config, *resumed);
    if (comm.rank() == 0) warn_of_common_files(options.data);
  });
  if (!resumed) load_initial_weights(options.train.init, step->network(), comm, context);
  say_what_runs(options, comm, context.threads, task.model(task.sample_shape()), *train, validation.get(), *step);

  std::unique_ptr<Inference> inference;
  std::unique_ptr<Predictor> predictor;
  std::unique_ptr<Validation> between_epochs;
  std::unique_ptr<Trainer> trainer;
  agree(comm, [&] {
    inference = make_inference(options, task, context, step->network(), tuning.get());
    if (validation) {
      predictor = std::make_unique<Predictor>(comm, context, inference->network(), *objective, *validation,
                                              options.data, task.views(*validation));
      between_epochs = std::make_unique<Validation>(Validation{
          *inference, *predictor, validation->size(), [&] { return task.evaluator(*validation, Depth::kQuick); }});
    }
    trainer = std::make_unique<Trainer>(trainer_options(options, stop_metric(options.stop, task)), comm, context, *step,
                                        *train, task.augmentation(*train), between_epochs.get());
    if (resumed) trainer->restore(resumed->checkpoint, resumed->path);
  });
  if (comm.rank() == 0) {
    warn_of_rate(options, trainer->schedule(), trainer->total_steps());
    warn_of_noise_scale(options, groups.mine.size());
  }
  if (resumed) log_info("going on from {}", resumed->path);
  if (line.check) {
    check_all(comm, *train, "data.train");
    if (validation) check_all(comm, *validation, "data.validation");
    say_estimate(options, *trainer, *step, *inference,
                 train->memory().size_bytes() + (validation ? validation->memory().size_bytes() : 0));
    if (comm.rank() == 0) warn_of_run_folder(line, folder);
    return kDone;
  }
  if (resumed && trainer->finished() && has_report(comm, folder)) {
    log_info("nothing is left to do: the run has ended after {}", format_count(trainer->steps(), "step"));
    return kDone;
  }

  take_new_run_folder(comm, folder, line.overwrite, lock);
  const RunIdentity identity = run_identity(line, options, task);
  std::unique_ptr<MetricsLog> metrics =
      open_run_folder(comm, folder, resumed ? std::optional(trainer->steps()) : std::nullopt, config.schema.resolved());
  agree(comm, [&] {
    if (tuning && comm.rank() == 0) {
      write_tuning(folder + "/" + kTuningFile, machine_text(context.threads), tuning->table);
    }
  });
  write_manifest(comm, context.threads, identity, options.data, folder);
  write_mllog_settings(mllog.get(), folder + "/" + kMllogFile, task.mlperf_benchmark().name, options, comm,
                       context.threads, train->size(), validation.get());
  const auto listener =
      make_listener(config, task, identity, comm, context.threads, std::move(metrics), std::move(mllog));
  if (groups.servers != nullptr) trainer->connect(*groups.servers);
  if (groups.across != nullptr) trainer->average_over(*groups.across);
  const FitResult result = trainer->fit(*listener);
  listener->write_trace(comm);
  if (result.stopped != StopRequest::kNone) return stopped(result.stopped, result.steps);  // nobody waits for more
  const double peak = measure_peaks(context).of(options.precision);
  if (result.rates.steps > 0) say_rates(result);

  const Activity last("last evaluation", result.steps);
  agree(comm, [&] {
    if (comm.rank() != 0 || result.rates.steps == 0) return;  // no step: all were done before a resume
    write_performance(folder, result, *step, {comm.size(), context.threads, options.train.batch, peak});
  });
  inference->update(context);
  std::optional<AgreedError> failed;  // the report is written all the same
  try {
    const StopRequest request =
        leave_evaluation(config, task, reporter, comm, context, inference->network(), *objective, validation.get());
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

}  // namespace

int command_train(const CommandLine& line, Configuration& config, Task& task, const Reporter& reporter,
                  Communicator& world) {
  config.load_input(world, line);
  const CommonOptions& options = config.options;
  const std::unique_ptr<Communicator> slower = delayed(world, options.inject);
  Communicator& comm = slower ? *slower : world;
  const UpdateOptions& update = options.update;
  if (update.servers == 0 && update.average_every == 0) return train_on(line, config, task, reporter, comm, {comm});
  if (checks_alone(line, comm)) {
    log_info("one rank checks what one of the groups would do alone");
    return train_on(line, config, task, reporter, comm, {comm});
  }

  const ServerLayout layout = server_layout(options, comm.size());
  if (update.servers == 0) {
    const std::unique_ptr<Communicator> group = comm.split(layout.group_of(comm.rank()));
    const std::unique_ptr<Communicator> across = comm.split(comm.rank() % layout.members());
    return train_on(line, config, task, reporter, comm, {*group, nullptr, across.get()});
  }
  const bool serves = comm.rank() >= layout.workers;
  std::unique_ptr<Transport> all = comm.transport().split(0);  // for messages between workers and servers
  const std::unique_ptr<Communicator> workers = comm.split(serves ? 1 : 0);
  const std::unique_ptr<Communicator> group = workers->split(serves ? 0 : layout.group_of(comm.rank()));
  HangOptions hangs = config.hang_options();
  hangs.one_peer = true;
  if (serves) hangs = {};  // they serve as long as workers work
  all->watch_hangs(hangs);
  if (serves) {
    watch_stop_signals();  // so that one does not end them before the workers have stopped
    OptimizerOptions optimizer = options.optimizer;
    optimizer.ranks = layout.members();
    const int code = serve(*all, layout, {optimized_layers(optimizer, layout.groups), serving_order(options)});
    if (code == kUserErrorCode || code == kFailureCode) {  // rank 0 says which
      throw AgreedError(code == kUserErrorCode ? ErrorKind::kUser : ErrorKind::kFailure, "the workers failed");
    }
    return code;
  }
  ServerSession session(std::move(all), layout, *group);
  int code = kFailureCode;
  std::optional<AgreedError> failed;
  try {
    code = train_on(line, config, task, reporter, *workers, {*group, &session});
  } catch (const AgreedError& error) {
    failed = error;
    code = exit_code(error);
  }
  session.end(code);
  if (failed) throw AgreedError(*failed);
  return code;
}

}  // namespace petaflow
