// The training loop: epochs of steps, validation between them, and when to stop.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/agree.hpp"
#include "io/checkpoint.hpp"
#include "io/progress.hpp"
#include "train/communication.hpp"
#include "train/epoch_plan.hpp"
#include "train/listener.hpp"
#include "train/options.hpp"
#include "train/schedule.hpp"
#include "train/stop_request.hpp"
#include "train/train_step.hpp"
#include "train/training_state.hpp"
#include "train/validation.hpp"

namespace petaflow {

/// Why a training is over.
/// kGroups: it is to go on from the checkpoint with as many groups as FitResult says.
enum class FitEnd { kLastStep, kTarget, kPatience, kGroups };
constexpr const char* name_of(FitEnd end) {
  switch (end) {
    case FitEnd::kLastStep:
      return "done";
    case FitEnd::kTarget:
      return "target";
    case FitEnd::kPatience:
      return "patience";
    case FitEnd::kGroups:
      break;
  }
  return "groups";
}

/// Rates of training over all ranks.  Flop: 2 per multiply-add of convolutions and dense layers, forward and backward,
/// of real samples (Kurth et al., SC17, section V: peak is the best interval, sustained the mean).
struct Rates {
  std::int64_t steps = 0, samples = 0;
  std::int64_t own_steps = 0;          // of this rank's group
  double seconds = 0;                  // of steps, without validation
  double sustained_samples_per_s = 0;  // after the first step
  double sustained_gflops = 0, peak_gflops = 0;
};

/// Forward and backward of one sample.
double flop_per_sample(const Network& network);

struct FitResult {
  std::int64_t steps = 0;  // done in all, those before a resume included
  FitEnd end = FitEnd::kLastStep;
  StopRequest stopped = StopRequest::kNone;
  std::optional<Evaluation> validation;      // rank 0: the last one, or the best where that is kept
  Rates rates;                               // of this process
  StepTimes times;                           // mean over ranks
  std::vector<LayerService> service;         // with update.servers, on rank 0: of each layer
  std::vector<std::int64_t> group_steps;     // on rank 0: of each group, in this process
  CommunicationTimes communication;          // on rank 0
  std::int64_t groups = 1;                   // with update.tune_groups: those that are best now
  std::optional<double> noise_scale;         // samples, of this rank's group, where it is measured
  std::optional<LossScaleState> loss_scale;  // where losses are multiplied
};

struct TrainerOptions {
  TrainOptions train;
  DataOptions data;
  ScheduleOptions schedule;
  StopOptions stop;  // with the name of a metric, or "loss"
  double learning_rate = 1e-3;
  std::int64_t log_interval = 10;           // steps between lines
  std::int64_t checkpoint_interval = 1000;  // steps between checkpoints; 0: only at the end
  UpdateOptions update = {};                // average_*, tune_*, groups
};

class Trainer {
 public:
  /// @param augment     of training samples, in place; may be empty
  /// @param comm        all ranks that train
  /// @param validation  may be null.  All references must outlive the trainer.
  Trainer(const TrainerOptions& options, Communicator& comm, const Context& context, TrainStep& step,
          const Dataset& train, const Augmentation& augment, const Validation* validation);

  std::int64_t steps() const { return state_.step; }  // done
  std::int64_t total_steps() const { return total_steps_; }
  const EpochPlan& epochs() const { return epochs_; }
  const Schedule& schedule() const { return schedule_; }
  float learning_rate(std::int64_t step) const { return schedule_.rate(step) * static_cast<float>(rate_factor_); }
  /// Batches of train.batch in all steps: more than these where a step takes several.
  std::int64_t total_batches() const { return epochs_.batches_in(total_steps_); }

  /// Takes up the run of a checkpoint with training state, on all ranks.  Throws user errors naming `path` where it
  /// belongs to another network, optimizer, or division of the data into steps.
  void restore(const Checkpoint& checkpoint, const std::string& path);
  /// Whether nothing is left to do.
  bool finished() const;

  /// With update.servers, before fit() and after restore(): connects with these, who deal out the steps.
  void connect(ServerSession& servers);
  /// With update.average_every, before fit(): steps go to the groups in turn.
  /// @param across  the members of all groups that have this one's number in theirs, in the order of the groups
  void average_over(Communicator& across) { across_ = &across; }
  /// Trains to the end, the target, or a request to stop; a checkpoint is saved every checkpoint_interval steps and at
  /// the end.  Throws on all ranks where one fails; a failure where a metric of a validation is not finite.
  FitResult fit(TrainingListener& listener);
  /// The wall time in seconds of one step from the beginning of the data, after one to warm up unless that takes long;
  /// changes the weights.
  double measure_step();

 private:
  struct StopMetric {
    double value = NAN;  // NaN: none
    bool higher_is_better = false;
  };

  StopRequest train_epoch(Progress* progress);
  StopRequest train_with_servers(Progress* progress);
  ServerSession::Lease work_with_servers(std::int64_t until, const std::function<void(std::span<const double>)>& done);
  bool search_due() const;
  StopRequest search_groups();
  std::optional<double> loss_of(const GroupTrial& trial, const TrainStep::Kept& from, StopRequest& stop);
  void go_on_from(const TrainStep::Kept& kept, const GroupTrial& settings);
  void tell_search() const;
  StopRequest train_between_averages(Progress* progress);
  struct AveragedSteps;
  void take_own_step(AveragedSteps& steps, std::int64_t step);
  void start_late_average(AveragedSteps& steps, std::int64_t behind);
  bool use_late_average(AveragedSteps& steps, Progress* progress);
  void count_losses(AveragedSteps& steps, std::span<const double> losses, Progress* progress);
  /// Of the epoch of the next step.
  std::int64_t steps_per_epoch() const { return epochs_.steps_of(state_.epoch); }
  std::int64_t batches_per_step() const { return epochs_.batches_of(state_.epoch); }
  std::int64_t samples_per_step() const { return batches_per_step() * options_.train.batch; }
  /// The step behind the last one of that epoch.
  std::int64_t end_of_epoch() const {
    return std::min(total_steps_, epochs_.first_step_of(state_.epoch) + steps_per_epoch());
  }
  bool averages_always() const;
  std::int64_t next_settling() const;
  void list_own_steps();
  std::int64_t next_own_step() const;
  void show(Progress* progress) const;
  StepResult run_step(std::int64_t step);
  std::optional<double> noise_scale() const;
  StopRequest end_epoch();
  void after_step(const StepResult& result, double seconds);
  StopRequest validate();
  /// The metric to stop by, on rank 0.
  StopMetric stop_metric(Evaluation& evaluation, double loss);
  Checkpoint checkpoint() const;
  void settle();
  void save_if_due();
  void save_at_end();

  TrainerOptions options_;
  Communicator& comm_;
  Context context_;
  TrainStep& step_;
  ServerSession* servers_ = nullptr;
  Communicator* across_ = nullptr;   // of groups that average
  std::int64_t may_save_after_ = 0;  // step of the last look for a checkpoint that is due
  const Validation* validation_;
  TrainingListener* listener_ = nullptr;  // of fit()
  Loader loader_;
  EpochPlan epochs_;
  std::int64_t total_steps_;
  Schedule schedule_;
  double flop_per_sample_ = 0;
  double rate_factor_ = 1;             // of the schedule's
  std::optional<AgreedError> failed_;  // the last trial that did

  TrainingState state_;
  std::vector<NamedArray> best_weights_;  // where stop.keep_best
  std::string saved_;                     // the state in the newest checkpoint, as text
  FitResult result_;
  std::int64_t interval_samples_ = 0;  // of this process since the last line of metrics
  double interval_s_ = 0;
  double first_step_s_ = 0;
  std::int64_t first_step_samples_ = 0;
};

/// The loader of a rank's share of the training set.
LoaderOptions loader_options(const TrainOptions& train, const DataOptions& data, const BatchShare& share);

}  // namespace petaflow
