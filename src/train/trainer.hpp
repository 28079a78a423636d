// The training loop: epochs of steps, validation between them, and when to stop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "io/checkpoint.hpp"
#include "io/metrics_log.hpp"
#include "train/job.hpp"
#include "train/predictor.hpp"
#include "train/report.hpp"
#include "train/schedule.hpp"
#include "train/trace.hpp"
#include "train/train_step.hpp"

namespace petaflow {

struct FitResult {
  std::int64_t steps = 0;
  double loss = 0;  // of the last step
  bool target_reached = false;
  bool stopped = false;                  // by a signal
  std::optional<Evaluation> validation;  // rank 0: the last one, or the best where that is kept
  Rates rates;
  StepTimes times;  // mean over ranks
};

class Trainer {
 public:
  /// @param validation, metrics  may be null; metrics is written on rank 0.  All must outlive the trainer.
  Trainer(Job& job, TrainStep& step, const Loss& loss, const Dataset& train, const Dataset* validation,
          MetricsLog* metrics);

  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t steps_per_epoch() const { return loader_.steps_per_epoch(); }

  /// Trains to the end, the target, or a signal.  Throws on all ranks where one fails.
  FitResult fit();
  /// The wall time in seconds of one step from the beginning of the data, after one to warm up; changes the weights.
  double measure_step();

 private:
  void after_step(const StepResult& result, std::int64_t epoch, double seconds);
  bool validate(std::int64_t epoch);

  Job& job_;
  TrainStep& step_;
  const Dataset* validation_;
  MetricsLog* metrics_;
  Loader loader_;
  std::int64_t total_steps_;
  Schedule schedule_;
  std::unique_ptr<Predictor> predictor_;
  FitResult result_;

  // Since the last line of the log.
  std::int64_t interval_steps_ = 0, interval_samples_ = 0;
  double interval_s_ = 0, interval_loss_ = 0;
  double first_step_s_ = 0;
  std::int64_t first_step_samples_ = 0;
  double flop_per_sample_ = 0;

  std::optional<double> best_;
  std::int64_t since_best_ = 0;
  std::vector<NamedArray> best_weights_;
};

/// The loader of a rank's share of the training set.
LoaderOptions loader_options(const CommonOptions& options, const BatchShare& share);

}  // namespace petaflow
