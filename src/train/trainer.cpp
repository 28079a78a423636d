#include "train/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <exception>
#include <iterator>
#include <utility>
#include <vector>

#include "base/activity.hpp"
#include "base/region.hpp"
#include "comm/agree.hpp"
#include "io/log.hpp"
#include "train/weights.hpp"

namespace petaflow {

LoaderOptions loader_options(const TrainOptions& train, const DataOptions& data, const BatchShare& share) {
  LoaderOptions loader;
  loader.global_batch = train.batch;
  loader.begin = share.begin;
  loader.end = share.end;
  loader.shuffle = data.shuffle;
  loader.seed = static_cast<std::uint64_t>(train.seed);
  loader.threads = data.threads;
  loader.prefetch = data.prefetch;
  return loader;
}

double flop_per_sample(const Network& network) {
  return (network.forward_flop() + network.backward_flop()) / static_cast<double>(network.batch());
}

namespace {

LoaderOptions augmented(LoaderOptions options, const Augmentation& augment) {
  options.augment = augment;
  return options;
}

/// Puts the average of the weights in their place, where there is one, as long as it lives.
class Averaged {
 public:
  explicit Averaged(TrainStep& step) : step_(step) {
    if (step_.averages()) step_.swap_average();
  }
  ~Averaged() {
    if (step_.averages()) step_.swap_average();
  }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  TrainStep& step_;
};

/// Prefix of the latest weights among the arrays of training, where the checkpoint's weights are others: the best ones,
/// or an average.
const std::string kLatest = "latest/";

std::int64_t steps_of_run(const TrainOptions& options, const EpochPlan& epochs) {
  return options.steps > 0 ? options.steps : epochs.first_step_of(options.epochs);
}

}  // namespace

Trainer::Trainer(const TrainerOptions& options, Communicator& comm, const Context& context, TrainStep& step,
                 const Dataset& train, const Augmentation& augment, const Validation* validation)
    : options_(options),
      comm_(comm),
      context_(context),
      step_(step),
      validation_(validation),
      loader_(train, augmented(loader_options(options.train, options.data, step.share()), augment)),
      epochs_(options.train, train.size()),
      total_steps_(steps_of_run(options.train, epochs_)),
      schedule_(options.schedule, options.learning_rate, epochs_, total_steps_),
      flop_per_sample_(flop_per_sample(step.network())) {
  check_targets(step.targets(), train.targets(), "data.train");
  state_.steps_per_epoch = steps_per_epoch();
  if (total_steps_ > 0 && options.update.lag >= total_steps_) {
    user_error(
        "update.lag is {}, so that the {} of the run would change no weights; set train.epochs to more, or "
        "update.lag to less",
        options.update.lag, format_count(total_steps_, "step"));
  }
  const std::int64_t trial = options.update.tune_groups;
  if (trial == 0) return;
  state_.search.emplace(options.update.groups, Control::kFromOptions);
  if (trial > steps_per_epoch()) {
    user_error("update.tune_groups = {} steps of a trial are more than the {} of an epoch; set it to {} or less", trial,
               steps_per_epoch(), steps_per_epoch());
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
    comm_.all_reduce_max(seconds);
  }
  step_.settle();
  return seconds[0];
}

void Trainer::restore(const Checkpoint& checkpoint, const std::string& path) {
  const TrainingState state = state_from_text(checkpoint.training, path);
  if (state.steps_per_epoch != epochs_.steps_of(state.epoch)) {
    user_error(
        "{} is of a run with {} steps per epoch, now there are {}: data.train, train.batch (with update.groups its "
        "part for a group) and what makes it grow must stay as they were; or start a new run from its weights "
        "(train.init)",
        path, state.steps_per_epoch, epochs_.steps_of(state.epoch));
  }
  if (const std::int64_t step = epochs_.first_step_of(state.epoch) + state.epoch_step; state.step != step) {
    user_error(
        "{} is of a run whose epoch {} began with step {}, now that is step {}: train.batch_epochs and "
        "train.batch_factor must stay as they were up to there",
        path, state.epoch + 1, state.step - state.epoch_step + 1, step - state.epoch_step + 1);
  }
  std::vector<NamedArray> latest, arrays;
  for (const NamedArray& array : checkpoint.training_arrays) {
    (array.name.starts_with(kLatest) ? latest : arrays).push_back(array);
  }
  step_.restore(state.step, arrays, state.lagged, state.loss_scale, path);
  set_weights(step_.network(), context_, checkpoint.weights, path);
  if (!latest.empty()) {
    if (state.best_kept || !step_.averages()) best_weights_ = checkpoint.weights;
    set_from_arrays(step_.network().parameters(), latest, kLatest, path, step_.network().weights());
    step_.network().refresh(context_);
  }
  const std::optional<GroupSearch> fresh = state_.search;
  state_ = state;
  if (!fresh || !state_.search) state_.search = fresh;
  saved_ = checkpoint.training;
}

void Trainer::connect(ServerSession& servers) {
  servers_ = &servers;
  if (state_.search) {
    const GroupTrial& found = state_.search->settings();
    PETAFLOW_REQUIRE(found.groups == options_.update.groups, "{} groups go on as {}", found.groups,
                     options_.update.groups);
    rate_factor_ = found.rate;
    step_.connect(servers, comm_, found.momentum);
  } else {
    step_.connect(servers, comm_);
  }
  step_.settle();
}

bool Trainer::finished() const { return state_.ended || (state_.step >= total_steps_ && !state_.validation_due); }

FitResult Trainer::fit(TrainingListener& listener) {
  listener_ = &listener;
  may_save_after_ = state_.step;
  step_.reset_times();
  ProgressOptions options;
  options.total = total_steps_;
  options.first = state_.step;
  options.interval = options_.log_interval;
  comm_.barrier();  // so that times of different ranks count from the same moment
  listener_->begin();
  const auto progress = comm_.rank() == 0 ? std::make_unique<Progress>(options) : nullptr;
  try {
    while (result_.stopped == StopRequest::kNone && result_.end != FitEnd::kGroups && !finished()) {
      if (search_due()) {
        result_.stopped = search_groups();
        continue;
      }
      if (!state_.validation_due) result_.stopped = train_epoch(progress.get());
      if (result_.stopped == StopRequest::kNone) result_.stopped = end_epoch();
    }
  } catch (const AgreedError&) {  // by all ranks at the same point
    step_.finish_sums();
    listener_->end(false);
    throw;
  } catch (...) {
    listener_->end(false);
    throw;
  }
  listener_->end(result_.end == FitEnd::kTarget && result_.stopped == StopRequest::kNone);
  save_at_end();
  if (!best_weights_.empty()) {
    set_weights(step_.network(), context_, best_weights_, "the best validation");
  } else if (step_.averages()) {
    step_.swap_average();
  }

  result_.steps = state_.step;
  if (state_.search) result_.groups = state_.search->groups();
  result_.noise_scale = noise_scale();
  result_.loss_scale = step_.loss_scale();
  Rates& rates = result_.rates;
  const double later_s = rates.seconds - first_step_s_;
  if (rates.steps > 1 && later_s > 0) {
    rates.sustained_samples_per_s = static_cast<double>(rates.samples - first_step_samples_) / later_s;
    rates.sustained_gflops = 1e-9 * rates.sustained_samples_per_s * flop_per_sample_;
    rates.peak_gflops = std::max(rates.peak_gflops, rates.sustained_gflops);
  }
  result_.times = mean_times(comm_, step_.times());
  result_.communication = communication_times(comm_, step_, servers_);
  if (servers_ != nullptr) result_.service = servers_->service(comm_);
  const auto all_steps = comm_.gather(std::as_bytes(std::span(&rates.own_steps, 1)));
  for (std::size_t rank = 0; rank < all_steps.size(); rank += static_cast<std::size_t>(step_.group().size())) {
    std::memcpy(&result_.group_steps.emplace_back(), all_steps[rank].data(), sizeof(std::int64_t));
  }
  return result_;
}

// To the end of the epoch, of the run, or to a request to stop.
StopRequest Trainer::train_epoch(Progress* progress) {
  listener_->begin_epoch(state_.epoch, samples_per_step());
  if (state_.epoch > 0 && state_.epoch_step == 0 && batches_per_step() != epochs_.batches_of(state_.epoch - 1)) {
    log_info("epoch {}: steps of {} from now on", state_.epoch + 1, format_count(samples_per_step(), "sample"));
  }
  if (across_ != nullptr) {
    list_own_steps();
  } else if (servers_ == nullptr) {
    loader_.start_epoch(state_.epoch, state_.epoch_step, batches_per_step());
  }
  while (!state_.validation_due) {
    if (servers_ != nullptr || across_ != nullptr) {
      const StopRequest stop = servers_ != nullptr ? train_with_servers(progress) : train_between_averages(progress);
      if (stop != StopRequest::kNone) return stop;
      if (!state_.validation_due) save_if_due();
      continue;
    }
    const Kokkos::Timer timer;
    listener_->begin_step(state_.step);
    const StepResult step = run_step(state_.step);
    listener_->end_step();
    result_.rates.own_steps += 1;
    after_step(step, timer.seconds());
    show(progress);
    if (step.stop != StopRequest::kNone) return step.stop;
    if (!state_.validation_due) save_if_due();
  }
  return StopRequest::kNone;
}

StepResult Trainer::run_step(std::int64_t step) {
  const StepResult result = step_.run(loader_, learning_rate(step));
  if (result.skipped && comm_.rank() == 0) {
    log_info("step {}: the gradient is not finite: no update; losses are multiplied by {} from now on", step + 1,
             step_.loss_scale()->scale);
  }
  if (result.noise) {
    if (!state_.noise) state_.noise.emplace();
    state_.noise->add(*result.noise);
  }
  return result;
}

std::optional<double> Trainer::noise_scale() const { return state_.noise ? state_.noise->value() : std::nullopt; }

void Trainer::show(Progress* progress) const {
  if (progress == nullptr) return;
  progress->update(state_.step, result_.rates.samples,
                   fmt::format("epoch {} loss {:.4f}", state_.epoch + 1, state_.loss));
}

StopRequest Trainer::end_epoch() {
  const std::int64_t between = options_.train.validate_epochs;
  const bool last = state_.step == total_steps_;
  if (validation_ != nullptr && (last || (between > 0 && (state_.epoch + 1) % between == 0))) {
    listener_->begin_validation(state_.epoch);
    if (const StopRequest stop = validate(); stop != StopRequest::kNone) return stop;
    listener_->end_validation(state_.epoch);
  }
  listener_->end_epoch(state_.epoch);
  state_.validation_due = false;
  if (state_.epoch_step == steps_per_epoch()) {
    state_.epoch += 1;
    state_.epoch_step = 0;
    state_.steps_per_epoch = steps_per_epoch();
  }
  save_if_due();
  return StopRequest::kNone;
}

// Moves the cursor, counts, and writes a line of metrics where an interval is full.
void Trainer::after_step(const StepResult& step, double seconds) {
  state_.step += 1;
  state_.epoch_step += 1;
  state_.validation_due = state_.epoch_step == steps_per_epoch() || state_.step == total_steps_;
  if (step.loss) {
    state_.loss = *step.loss;
    state_.interval_steps += 1;
    state_.interval_loss += *step.loss;
  }
  result_.rates.steps += 1;
  result_.rates.samples += step.samples;
  result_.rates.seconds += seconds;
  if (result_.rates.steps == 1) {
    first_step_s_ = seconds;
    first_step_samples_ = step.samples;
  }
  interval_samples_ += step.samples;
  interval_s_ += seconds;
  if (state_.step % options_.log_interval != 0 && state_.step != total_steps_) return;

  const double rate = static_cast<double>(interval_samples_) / interval_s_, gflops = 1e-9 * rate * flop_per_sample_;
  const bool has_first = result_.rates.samples == interval_samples_;  // it pays for page faults and plans
  if (!has_first || interval_samples_ > step.samples) {
    result_.rates.peak_gflops = std::max(result_.rates.peak_gflops, gflops);
  }
  if (state_.interval_steps == 0) return;  // no loss is known yet
  listener_->interval({state_.step, state_.epoch, state_.interval_loss / static_cast<double>(state_.interval_steps),
                       static_cast<double>(learning_rate(state_.step - 1)), rate, gflops, noise_scale()});
  state_.interval_steps = interval_samples_ = 0;
  state_.interval_loss = interval_s_ = 0;
}

Trainer::StopMetric Trainer::stop_metric(Evaluation& evaluation, double loss) {
  evaluation.metrics.push_back({"loss", loss, false});
  const auto is_said = [&](const std::string& name) {
    return evaluation.is_main(name) || name == "loss" || name == options_.stop.metric;
  };
  std::string text;
  for (const NamedMetric& m : evaluation.metrics) {
    if (!std::isfinite(m.value)) {
      failure(
          "validation after step {}: {} is {}; a smaller optimizer.lr or a warm-up (schedule.warmup_steps) may help",
          state_.step, m.name, m.value);
    }
    if (is_said(m.name)) text += fmt::format(" {} {:.4f}", m.name, m.value);
  }
  for (const auto& [name, reason] : evaluation.undefined) {
    if (is_said(name)) text += fmt::format("; no {}: {}", name, reason);
  }
  log_info("epoch {} validation:{}", state_.epoch + 1, text);
  listener_->validated({state_.step, state_.epoch, state_.loss, evaluation});
  const NamedMetric* metric = evaluation.find(options_.stop.metric);
  return metric == nullptr ? StopMetric() : StopMetric{metric->value, metric->higher_is_better};
}

// Evaluates the weights, and ends the run where the target is reached or patience ended.
StopRequest Trainer::validate() {
  const StopOptions& options = options_.stop;
  const Activity activity("validation", state_.step);
  const Averaged averaged(step_);
  validation_->inference.update(context_);
  const std::unique_ptr<Evaluator> evaluator = validation_->evaluator();
  const EvaluationRun run = evaluate(comm_, validation_->predictor, validation_->samples, *evaluator);
  if (run.stopped != StopRequest::kNone) return run.stopped;
  StopMetric metric;
  Evaluation evaluation;
  agree(comm_, [&] {
    if (comm_.rank() != 0) return;
    evaluation = evaluator->evaluate();
    metric = stop_metric(evaluation, run.loss);
  });
  comm_.broadcast(std::as_writable_bytes(std::span(&metric, 1)), 0);
  const auto better = [&](double a, double b) { return metric.higher_is_better ? a > b : a < b; };
  if (std::isnan(metric.value)) {  // and nothing is to stop by it
    result_.validation = std::move(evaluation);
    return StopRequest::kNone;
  }
  const bool improved = !state_.best || better(metric.value, *state_.best);
  if (improved) state_.best = metric.value;
  state_.since_best = improved ? 0 : state_.since_best + 1;
  if (improved && options.keep_best) {
    best_weights_ = weights_of(step_.network());
    state_.best_kept = true;
  }
  if (improved || !options.keep_best) result_.validation = std::move(evaluation);

  const bool target_reached = options.target != 0 && !better(options.target, metric.value);
  const bool patience_ended = options.patience > 0 && state_.since_best >= options.patience;
  state_.ended = target_reached || patience_ended;
  if (state_.ended) result_.end = target_reached ? FitEnd::kTarget : FitEnd::kPatience;
  if (target_reached) log_info("target {} reached", options.target);
  if (patience_ended) log_info("no better value in {}", format_count(options.patience, "validation"));
  return StopRequest::kNone;
}

// ---- Checkpoints ----

// Its weights are those to use: of the best validation where they are kept, or the average of optimizer.ema, and then
// the latest stand beside them.
Checkpoint Trainer::checkpoint() const {
  const Network& network = step_.network();
  Checkpoint checkpoint;
  checkpoint.training = to_text(state_);
  checkpoint.training_arrays = step_.arrays();
  for (const NamedArray& array : arrays_of(network.parameters(), network.weights())) {
    if (!std::ranges::all_of(array.values, [](float value) { return std::isfinite(value); })) {
      failure("after step {} {} is not finite; a smaller optimizer.lr or a warm-up (schedule.warmup_steps) may help",
              state_.step, array.name);
    }
  }
  if (best_weights_.empty() && !step_.averages()) {
    checkpoint.weights = weights_of(network);
  } else {
    checkpoint.weights = best_weights_.empty() ? step_.averaged_weights() : best_weights_;
    std::ranges::move(arrays_of(network.parameters(), network.weights(), kLatest),
                      std::back_inserter(checkpoint.training_arrays));
  }
  return checkpoint;
}

void Trainer::settle() {
  if (servers_ == nullptr) step_.settle();
  state_.lagged = step_.lagged();
  state_.loss_scale = step_.loss_scale();
}

// A run is not lost because a checkpoint cannot be written: it goes on, and tries again at the next one.
void Trainer::save_if_due() {
  const std::int64_t interval = options_.checkpoint_interval, last = std::exchange(may_save_after_, state_.step);
  if (interval == 0 || state_.step / interval == last / interval || finished()) return;
  settle();
  if (comm_.rank() != 0) return;
  const Region region("petaflow::checkpoint");
  try {
    listener_->save(state_.step, checkpoint());
    saved_ = to_text(state_);
  } catch (...) {
    log_info("warning: no checkpoint after step {}: {}; the run goes on", state_.step,
             to_error(std::current_exception()).what());
  }
}

void Trainer::save_at_end() {
  const Activity activity("writing the last checkpoint");
  settle();
  agree(comm_, [&] {
    if (comm_.rank() != 0 || saved_ == to_text(state_)) return;
    const std::string path = listener_->save(state_.step, checkpoint());
    if (!path.empty()) log_info("wrote {}", path);
    if (!best_weights_.empty()) log_info("its weights are those of the best validation ({:.4f})", *state_.best);
  });
}

}  // namespace petaflow
