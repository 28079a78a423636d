#include "train/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include <nlohmann/json.hpp>

#include "base/activity.hpp"
#include "base/region.hpp"
#include "comm/agree.hpp"
#include "io/log.hpp"
#include "run/checkpoint_folder.hpp"
#include "run/folder.hpp"
#include "train/weights.hpp"

namespace petaflow {

LoaderOptions loader_options(const CommonOptions& options, const BatchShare& share) {
  LoaderOptions loader;
  loader.global_batch = options.train.batch;
  loader.begin = share.begin;
  loader.end = share.end;
  loader.shuffle = options.data.shuffle;
  loader.seed = static_cast<std::uint64_t>(options.train.seed);
  loader.threads = options.data.threads;
  loader.prefetch = options.data.prefetch;
  return loader;
}

namespace {

LoaderOptions augmented(LoaderOptions options, const Application& app, const Dataset& train) {
  options.augment = app.augmentation(train);
  return options;
}

/// Prefix of the latest weights among the arrays of training, where the checkpoint's weights are the best ones.
const std::string kLatest = "latest/";

std::int64_t steps_of_run(const TrainOptions& options, std::int64_t steps_per_epoch) {
  return options.steps > 0 ? options.steps : options.epochs * steps_per_epoch;
}

}  // namespace

Trainer::Trainer(Job& job, TrainStep& step, const Loss& loss, const Dataset& train, const Dataset* validation)
    : job_(job),
      step_(step),
      validation_(validation),
      loader_(train, augmented(loader_options(job.options, step.share()), job.app, train)),
      total_steps_(steps_of_run(job.options.train, loader_.steps_per_epoch())),
      schedule_(job.options.schedule, job.options.optimizer.lr, loader_.steps_per_epoch(), total_steps_),
      inference_(job, step.network()),
      flop_per_sample_(flop_per_sample(step.network())) {
  state_.steps_per_epoch = steps_per_epoch();
  if (validation != nullptr) {
    predictor_ = std::make_unique<Predictor>(*job.comm, job.context, inference_.network(), loss, *validation,
                                             job.options.data, job.app.views(*validation));
  }
}

double Trainer::measure_step() {
  constexpr double kLong_s = 10;
  std::array<double, 1> seconds{};
  for (std::int64_t s = 0; s < 2 && seconds[0] < kLong_s; ++s) {
    if (s % loader_.steps_per_epoch() == 0) loader_.start_epoch(s);
    const Kokkos::Timer timer;
    step_.run(loader_, schedule_.rate(0));
    seconds[0] = timer.seconds();
    job_.comm->all_reduce_max(seconds);
  }
  return seconds[0];
}

void Trainer::restore(const Checkpoint& checkpoint, const std::string& path) {
  const TrainingState state = state_from_text(checkpoint.training, path);
  if (state.steps_per_epoch != steps_per_epoch()) {
    user_error(
        "{} is of a run with {} steps per epoch, now there are {}: data.train and train.batch must stay as they were; "
        "or start a new run from its weights (train.init)",
        path, state.steps_per_epoch, steps_per_epoch());
  }
  std::vector<NamedArray> latest, optimizer;
  for (const NamedArray& array : checkpoint.training_arrays) {
    (array.name.starts_with(kLatest) ? latest : optimizer).push_back(array);
  }
  step_.restore(state.step, optimizer, path);
  set_weights(step_.network(), job_.context, checkpoint.weights, path);
  if (!latest.empty()) {
    best_weights_ = checkpoint.weights;
    set_from_arrays(step_.network().parameters(), latest, kLatest, path, step_.network().weights());
    step_.network().refresh(job_.context);
  }
  state_ = state;
  saved_ = checkpoint.training;
}

bool Trainer::finished() const { return state_.ended || (state_.step >= total_steps_ && !state_.validation_due); }

FitResult Trainer::fit(MetricsLog* metrics) {
  metrics_ = metrics;
  step_.reset_times();
  ProgressOptions options;
  options.total = total_steps_;
  options.first = state_.step;
  options.interval = job_.options.log.interval;
  start_trace();
  const auto progress = job_.is_root() && !job_.line.json ? std::make_unique<Progress>(options) : nullptr;
  mllog([](MlLog& log) { log.start("run_start"); });
  const auto end_mllog = [&](bool reached) {
    mllog([&](MlLog& log) { log.stop("run_stop", {{"status", reached ? "success" : "aborted"}}); });
  };
  try {
    while (result_.stopped == StopRequest::kNone && !finished()) {
      if (!state_.validation_due) result_.stopped = train_epoch(progress.get());
      if (result_.stopped == StopRequest::kNone) result_.stopped = end_epoch();
    }
  } catch (...) {
    end_mllog(false);
    throw;
  }
  end_mllog(result_.end == FitEnd::kTarget && result_.stopped == StopRequest::kNone);
  trace([&] { trace_->finish(); });
  save_at_end();
  if (!best_weights_.empty()) set_weights(step_.network(), job_.context, best_weights_, "the best validation");

  result_.steps = state_.step;
  Rates& rates = result_.rates;
  const double later_s = rates.seconds - first_step_s_;
  if (rates.steps > 1 && later_s > 0) {
    rates.sustained_samples_per_s = static_cast<double>(rates.samples - first_step_samples_) / later_s;
    rates.sustained_gflops = 1e-9 * rates.sustained_samples_per_s * flop_per_sample_;
    rates.peak_gflops = std::max(rates.peak_gflops, rates.sustained_gflops);
  }
  result_.times = mean_times(*job_.comm, step_.times());
  return result_;
}

// On rank 0, where there is no other tool that listens to Kokkos.
void Trainer::start_trace() {
  if (!job_.is_root() || job_.options.log.trace_steps == 0) return;
  if (StepTrace::tool_is_loaded()) {
    job_.say("no {}: a tool of Kokkos is loaded and takes its calls", kTraceFile);
    return;
  }
  trace_ = std::make_unique<StepTrace>(job_.options.log.trace_steps, job_.run_folder() + "/" + kTraceFile);
}

// A run is not lost because its trace cannot be written.
void Trainer::trace(const std::function<void()>& call) {
  if (!trace_) return;
  try {
    call();
  } catch (const Error& error) {
    job_.say("warning: {}; the run goes on", error.what());
    trace_.reset();
  }
}

// A run is not lost because MLPerf's log cannot be written.
void Trainer::mllog(const std::function<void(MlLog&)>& call) {
  if (!job_.mllog) return;
  try {
    call(*job_.mllog);
  } catch (const Error& error) {
    job_.say("warning: {}; the run goes on", error.what());
    job_.mllog.reset();
  }
}

nlohmann::json Trainer::epoch_number() const { return {{"epoch_num", state_.epoch + 1}}; }

// To the end of the epoch, of the run, or to a request to stop.
StopRequest Trainer::train_epoch(Progress* progress) {
  mllog([&](MlLog& log) { log.start("epoch_start", epoch_number()); });
  loader_.start_epoch(state_.epoch, state_.epoch_step);
  while (!state_.validation_due) {
    const Kokkos::Timer timer;
    trace([&] { trace_->begin_step(state_.step); });
    const StepResult step = step_.run(loader_, schedule_.rate(state_.step));
    trace([&] { trace_->end_step(); });
    after_step(step, timer.seconds());
    if (progress != nullptr) {
      progress->update(state_.step, result_.rates.samples,
                       fmt::format("epoch {} loss {:.4f}", state_.epoch + 1, step.loss));
    }
    if (step.stop != StopRequest::kNone) return step.stop;
    if (!state_.validation_due) save_if_due();
  }
  return StopRequest::kNone;
}

StopRequest Trainer::end_epoch() {
  const std::int64_t between = job_.options.train.validate_epochs;
  const bool last = state_.step == total_steps_;
  if (validation_ != nullptr && (last || (between > 0 && (state_.epoch + 1) % between == 0))) {
    mllog([&](MlLog& log) { log.start("eval_start", epoch_number()); });
    if (const StopRequest stop = validate(); stop != StopRequest::kNone) return stop;
    mllog([&](MlLog& log) { log.stop("eval_stop", epoch_number()); });
  }
  mllog([&](MlLog& log) { log.stop("epoch_stop", epoch_number()); });
  state_.validation_due = false;
  if (state_.epoch_step == steps_per_epoch()) {
    state_.epoch += 1;
    state_.epoch_step = 0;
  }
  save_if_due();
  return StopRequest::kNone;
}

// Moves the cursor, counts, and writes a line of metrics where an interval is full.
void Trainer::after_step(const StepResult& step, double seconds) {
  state_.step += 1;
  state_.epoch_step += 1;
  state_.validation_due = state_.epoch_step == steps_per_epoch() || state_.step == total_steps_;
  state_.loss = step.loss;
  result_.rates.steps += 1;
  result_.rates.samples += step.samples;
  result_.rates.seconds += seconds;
  if (result_.rates.steps == 1) {
    first_step_s_ = seconds;
    first_step_samples_ = step.samples;
  }
  state_.interval_steps += 1;
  state_.interval_loss += step.loss;
  interval_samples_ += step.samples;
  interval_s_ += seconds;
  if (state_.step % job_.options.log.interval != 0 && state_.step != total_steps_) return;

  const double rate = static_cast<double>(interval_samples_) / interval_s_, gflops = 1e-9 * rate * flop_per_sample_;
  const bool has_first = result_.rates.samples == interval_samples_;  // it pays for page faults and plans
  if (!has_first || interval_samples_ > step.samples) {
    result_.rates.peak_gflops = std::max(result_.rates.peak_gflops, gflops);
  }
  {
    const nlohmann::json line = {{"step", state_.step},
                                 {"epoch", state_.epoch + 1},  // from 1, as in the log
                                 {"loss", state_.interval_loss / static_cast<double>(state_.interval_steps)},
                                 {"lr", schedule_.rate(state_.step - 1)},
                                 {"samples_per_s", rate},
                                 {"gflops", gflops}};
    log(line);
  }
  state_.interval_steps = interval_samples_ = 0;
  state_.interval_loss = interval_s_ = 0;
}

// A run is not lost because a line cannot be written: the log tries it again with the next one.
void Trainer::log(const nlohmann::json& line) {
  if (metrics_ == nullptr) return;
  try {
    metrics_->write(line);
    log_failed_ = false;
  } catch (const Error& error) {
    if (!log_failed_) job_.say("warning: {}; the run goes on", error.what());
    log_failed_ = true;
  }
}

// Judges the weights, and ends the run where the target is reached or patience ended.
StopRequest Trainer::validate() {
  const StopOptions& options = job_.options.stop;
  const Activity activity("validation", state_.step);
  inference_.update(job_.context);
  const Predictions predictions = predictor_->run();
  if (predictions.stopped != StopRequest::kNone) return predictions.stopped;
  // Of the metric to stop by, from rank 0 to all: value (NaN: none), whether higher is better.
  std::array<double, 2> decisive = {NAN, 0};
  Evaluation evaluation;
  agree(*job_.comm, [&] {
    if (!job_.is_root()) return;
    evaluation = job_.app.evaluate(*validation_, predictions, {}, Depth::kQuick);
    evaluation.metrics.push_back({"loss", predictions.loss, false});
    for (const NamedMetric& m : evaluation.metrics) {
      if (!std::isfinite(m.value)) failure("validation after step {}: {} is {}", state_.step, m.name, m.value);
    }
    if (const NamedMetric* metric = evaluation.find(job_.stop_metric())) {
      decisive = {metric->value, metric->higher_is_better ? 1.0 : 0.0};
    }
    nlohmann::json values;
    std::string text;
    for (const NamedMetric& m : evaluation.metrics) {
      values[m.name] = m.value;
      text += fmt::format(" {} {:.4f}", m.name, m.value);
    }
    for (const auto& [name, reason] : evaluation.undefined) text += fmt::format("; no {}: {}", name, reason);
    job_.say("epoch {} validation:{}", state_.epoch + 1, text);
    mllog([&](MlLog& log) {
      const MlperfBenchmark benchmark = job_.app.mlperf_benchmark();
      log.point(benchmark.key, values.at(benchmark.metric), epoch_number());
    });
    const nlohmann::json line = {
        {"step", state_.step}, {"epoch", state_.epoch + 1}, {"loss", state_.loss}, {"validation", values}};
    log(line);
  });
  job_.comm->broadcast(std::as_writable_bytes(std::span(decisive)), 0);
  const auto better = [&](double a, double b) { return decisive[1] != 0 ? a > b : a < b; };
  if (std::isnan(decisive[0])) {  // and nothing is to stop by it
    result_.validation = std::move(evaluation);
    return StopRequest::kNone;
  }
  const bool improved = !state_.best || better(decisive[0], *state_.best);
  if (improved) state_.best = decisive[0];
  state_.since_best = improved ? 0 : state_.since_best + 1;
  if (improved && options.keep_best) best_weights_ = weights_of(step_.network());
  if (improved || !options.keep_best) result_.validation = std::move(evaluation);

  const bool target_reached = options.target != 0 && !better(options.target, decisive[0]);
  const bool patience_ended = options.patience > 0 && state_.since_best >= options.patience;
  state_.ended = target_reached || patience_ended;
  if (state_.ended) result_.end = target_reached ? FitEnd::kTarget : FitEnd::kPatience;
  if (target_reached) job_.say("target {} reached", options.target);
  if (patience_ended) job_.say("no better value in {}", format_count(options.patience, "validation"));
  return StopRequest::kNone;
}

// ---- Checkpoints ----

// Its weights are those to use: of the best validation where they are kept, and then the latest stand beside them.
Checkpoint Trainer::checkpoint() const {
  const Network& network = step_.network();
  Checkpoint checkpoint;
  checkpoint.model = job_.app.description();
  checkpoint.config = job_.schema.resolved();
  checkpoint.provenance = provenance(job_);
  checkpoint.training = to_text(state_);
  checkpoint.training_arrays = step_.optimizer_arrays();
  for (const NamedArray& array : arrays_of(network.parameters(), network.weights())) {
    if (!std::ranges::all_of(array.values, [](float value) { return std::isfinite(value); })) {
      failure("after step {} {} is not finite; a smaller optimizer.lr or a warm-up (schedule.warmup_steps) may help",
              state_.step, array.name);
    }
  }
  if (best_weights_.empty()) {
    checkpoint.weights = weights_of(network);
  } else {
    checkpoint.weights = best_weights_;
    std::ranges::move(arrays_of(network.parameters(), network.weights(), kLatest),
                      std::back_inserter(checkpoint.training_arrays));
  }
  return checkpoint;
}

// A run is not lost because a checkpoint cannot be written: it goes on, and tries again at the next one.
void Trainer::save_if_due() {
  const CheckpointOptions& options = job_.options.checkpoint;
  if (options.interval == 0 || state_.step % options.interval != 0 || finished() || !job_.is_root()) return;
  const Region region("petaflow::checkpoint");
  try {
    save_to_folder(job_.run_folder(), state_.step, checkpoint(), options.keep);
    saved_ = to_text(state_);
  } catch (const Error& error) {
    job_.say("warning: no checkpoint after step {}: {}; the run goes on", state_.step, error.what());
  }
}

void Trainer::save_at_end() {
  const Activity activity("writing the last checkpoint");
  agree(*job_.comm, [&] {
    if (!job_.is_root() || saved_ == to_text(state_)) return;
    const std::string path = save_to_folder(job_.run_folder(), state_.step, checkpoint(), job_.options.checkpoint.keep);
    job_.say("wrote {}", path);
    if (!best_weights_.empty()) job_.say("its weights are those of the best validation ({:.4f})", *state_.best);
  });
}

}  // namespace petaflow
