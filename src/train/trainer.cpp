#include "train/trainer.hpp"

#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "io/log.hpp"
#include "io/progress.hpp"
#include "train/agree.hpp"
#include "train/run_folder.hpp"
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

std::int64_t steps_of_run(const TrainOptions& options, std::int64_t steps_per_epoch) {
  return options.steps > 0 ? options.steps : options.epochs * steps_per_epoch;
}

/// Of rank 0, where there is no other tool that listens to Kokkos.
StepTrace trace_of(const Job& job) {
  const std::int64_t steps = job.is_root() ? job.options.log.trace_steps : 0;
  if (steps > 0 && StepTrace::tool_is_loaded()) {
    job.say("no {}: a tool of Kokkos is loaded and takes its calls", kTraceFile);
    return StepTrace(0, "");
  }
  return StepTrace(steps, job.run_folder() + "/" + kTraceFile);
}

}  // namespace

Trainer::Trainer(Job& job, TrainStep& step, const Loss& loss, const Dataset& train, const Dataset* validation,
                 MetricsLog* metrics)
    : job_(job),
      step_(step),
      validation_(validation),
      metrics_(metrics),
      loader_(train, augmented(loader_options(job.options, step.share()), job.app, train)),
      total_steps_(steps_of_run(job.options.train, loader_.steps_per_epoch())),
      schedule_(job.options.schedule, job.options.optimizer.lr, loader_.steps_per_epoch(), total_steps_),
      flop_per_sample_(flop_per_sample(step.network())) {
  if (validation != nullptr) {
    predictor_ = std::make_unique<Predictor>(*job.comm, job.context, step.network(), loss, *validation,
                                             job.options.data, job.app.views(*validation));
  }
}

double Trainer::measure_step() {
  loader_.start_epoch(0);
  step_.run(loader_, schedule_.rate(0));
  if (loader_.steps_per_epoch() == 1) loader_.start_epoch(1);
  const Kokkos::Timer timer;
  step_.run(loader_, schedule_.rate(0));
  return timer.seconds();
}

FitResult Trainer::fit() {
  const std::int64_t per_epoch = loader_.steps_per_epoch();
  const std::int64_t between = job_.options.train.validate_epochs;
  step_.reset_times();
  bool stop = false;
  ProgressOptions options;
  options.total = total_steps_;
  options.interval = job_.options.log.interval;
  StepTrace trace = trace_of(job_);
  const auto progress = job_.is_root() && !job_.line.json ? std::make_unique<Progress>(options) : nullptr;

  for (std::int64_t epoch = 0; result_.steps < total_steps_ && !stop; ++epoch) {
    loader_.start_epoch(epoch);
    for (std::int64_t s = 0; s < per_epoch && result_.steps < total_steps_ && !stop; ++s) {
      const Kokkos::Timer timer;
      trace.begin_step(result_.steps);
      const StepResult step = step_.run(loader_, schedule_.rate(result_.steps));
      trace.end_step();
      after_step(step, epoch, timer.seconds());
      if (progress) {
        progress->update(result_.steps, result_.rates.samples, fmt::format("epoch {} loss {:.4f}", epoch, step.loss));
      }
      stop = step.stop;
    }
    result_.stopped = stop;
    if (stop) break;
    const bool last = result_.steps == total_steps_;
    if (validation_ != nullptr && (last || (between > 0 && (epoch + 1) % between == 0))) stop = validate(epoch);
  }

  if (!best_weights_.empty()) {
    Checkpoint best;
    best.weights = std::move(best_weights_);
    set_weights(step_.network(), job_.context, best, "the best validation");
    job_.say("kept the weights of the best validation ({:.4f})", *best_);
  }

  trace.finish();
  Rates& rates = result_.rates;
  const double later_s = rates.seconds - first_step_s_;
  if (result_.steps > 1 && later_s > 0) {
    rates.sustained_samples_per_s = static_cast<double>(rates.samples - first_step_samples_) / later_s;
    rates.sustained_gflops = 1e-9 * rates.sustained_samples_per_s * flop_per_sample_;
    rates.peak_gflops = std::max(rates.peak_gflops, rates.sustained_gflops);
  }
  result_.times = mean_times(*job_.comm, step_.times());
  return result_;
}

// Counts, and writes a line of metrics where an interval is full.
void Trainer::after_step(const StepResult& step, std::int64_t epoch, double seconds) {
  result_.steps += 1;
  result_.loss = step.loss;
  result_.rates.steps += 1;
  result_.rates.samples += step.samples;
  result_.rates.seconds += seconds;
  if (result_.steps == 1) {
    first_step_s_ = seconds;
    first_step_samples_ = step.samples;
  }
  interval_steps_ += 1;
  interval_samples_ += step.samples;
  interval_s_ += seconds;
  interval_loss_ += step.loss;
  if (result_.steps % job_.options.log.interval != 0 && result_.steps != total_steps_) return;

  const double rate = static_cast<double>(interval_samples_) / interval_s_, gflops = 1e-9 * rate * flop_per_sample_;
  const bool has_first = result_.steps == interval_steps_;  // it pays for page faults and plans
  if (!has_first || interval_steps_ > 1) result_.rates.peak_gflops = std::max(result_.rates.peak_gflops, gflops);
  if (metrics_ != nullptr) {
    const nlohmann::json line = {{"step", result_.steps},
                                 {"epoch", epoch},
                                 {"loss", interval_loss_ / static_cast<double>(interval_steps_)},
                                 {"lr", schedule_.rate(result_.steps - 1)},
                                 {"samples_per_s", rate},
                                 {"gflops", gflops}};
    metrics_->write(line);
  }
  interval_steps_ = interval_samples_ = 0;
  interval_s_ = interval_loss_ = 0;
}

// Judges the weights; true where training is to stop.
bool Trainer::validate(std::int64_t epoch) {
  const StopOptions& options = job_.options.stop;
  const Predictions predictions = predictor_->run();
  // Of the metric to stop by, from rank 0 to all: value, whether higher is better.
  std::array<double, 2> decisive = {0, 0};
  Evaluation evaluation;
  agree(*job_.comm, [&] {
    if (!job_.is_root()) return;
    evaluation = job_.app.evaluate(*validation_, predictions, Depth::kQuick);
    evaluation.metrics.push_back({"loss", predictions.loss, false});
    const NamedMetric* metric = options.metric.empty() ? &evaluation.metrics.front() : evaluation.find(options.metric);
    if (metric == nullptr) {
      std::string known;
      for (const NamedMetric& m : evaluation.metrics) known += (known.empty() ? "" : ", ") + m.name;
      user_error("stop.metric \"{}\" is not a metric of {}: they are {}", options.metric, job_.app.name(), known);
    }
    decisive = {metric->value, metric->higher_is_better ? 1.0 : 0.0};
    nlohmann::json values;
    std::string text;
    for (const NamedMetric& m : evaluation.metrics) {
      values[m.name] = m.value;
      text += fmt::format(" {} {:.4f}", m.name, m.value);
    }
    job_.say("epoch {} validation:{}", epoch, text);
    const nlohmann::json line = {{"step", result_.steps}, {"epoch", epoch}, {"validation", values}};
    if (metrics_ != nullptr) metrics_->write(line);
  });
  job_.comm->broadcast(std::as_writable_bytes(std::span(decisive)), 0);
  const auto better = [&](double a, double b) { return decisive[1] != 0 ? a > b : a < b; };
  const bool improved = !best_ || better(decisive[0], *best_);
  if (improved) best_ = decisive[0];
  since_best_ = improved ? 0 : since_best_ + 1;
  if (improved && options.keep_best) best_weights_ = weights_of(step_.network());
  if (improved || !options.keep_best) result_.validation = std::move(evaluation);

  result_.target_reached = options.target != 0 && !better(options.target, decisive[0]);
  const bool patience_ended = options.patience > 0 && since_best_ >= options.patience;
  const bool stops = result_.target_reached || patience_ended;
  if (result_.target_reached) job_.say("target {} reached", options.target);
  if (patience_ended) job_.say("no better value in {} validations", options.patience);
  return stops;
}

}  // namespace petaflow
