// The training loop: epochs of steps, validation between them, and when to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/checkpoint.hpp"
#include "io/metrics_log.hpp"
#include "io/progress.hpp"
#include "measure/rates.hpp"
#include "measure/trace.hpp"
#include "program/job.hpp"
#include "train/inference.hpp"
#include "train/predictor.hpp"
#include "train/schedule.hpp"
#include "train/stop_request.hpp"
#include "train/train_step.hpp"
#include "train/training_state.hpp"

namespace petaflow {

/// Why a training is over.
enum class FitEnd { kLastStep, kTarget, kPatience };

struct FitResult {
  std::int64_t steps = 0;  // done in all, those before a resume included
  FitEnd end = FitEnd::kLastStep;
  StopRequest stopped = StopRequest::kNone;
  std::optional<Evaluation> validation;  // rank 0: the last one, or the best where that is kept
  Rates rates;                           // of this process
  StepTimes times;                       // mean over ranks
};

class Trainer {
 public:
  /// @param validation  may be null.  All must outlive the trainer.
  Trainer(Job& job, TrainStep& step, const Objective& loss, const Dataset& train, const Dataset* validation);

  std::int64_t steps() const { return state_.step; }  // done
  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t steps_per_epoch() const { return loader_.steps_per_epoch(); }
  /// To predict with, by the present weights after an update().
  Inference& inference() { return inference_; }

  /// Takes up the run of a checkpoint with training state, on all ranks.  Throws user errors naming `path` where it
  /// belongs to another network, optimizer, or division of the data into steps.
  void restore(const Checkpoint& checkpoint, const std::string& path);
  /// Whether nothing is left to do.
  bool finished() const;

  /// Trains to the end, the target, or a request to stop; writes a checkpoint every checkpoint.interval steps and at
  /// the end.  Throws on all ranks where one fails; a failure where a metric of a validation is not finite.
  /// @param metrics  on rank 0; null elsewhere
  FitResult fit(MetricsLog* metrics);
  /// The wall time in seconds of one step from the beginning of the data, after one to warm up unless that takes long;
  /// changes the weights.
  double measure_step();

 private:
  StopRequest train_epoch(Progress* progress);
  StopRequest end_epoch();
  void after_step(const StepResult& result, double seconds);
  StopRequest validate();
  void log(const nlohmann::json& line);
  void start_trace();
  void trace(const std::function<void()>& call);
  void mllog(const std::function<void(MlLog&)>& call);
  nlohmann::json epoch_number() const;
  Checkpoint checkpoint() const;
  void save_if_due();
  void save_at_end();

  Job& job_;
  TrainStep& step_;
  const Dataset* validation_;
  MetricsLog* metrics_ = nullptr;
  Loader loader_;
  std::int64_t total_steps_;
  Schedule schedule_;
  Inference inference_;
  std::unique_ptr<Predictor> predictor_;
  double flop_per_sample_ = 0;

  TrainingState state_;
  std::vector<NamedArray> best_weights_;  // where stop.keep_best
  std::string saved_;                     // the state in the newest checkpoint, as text
  bool log_failed_ = false;               // the last line could not be written
  FitResult result_;
  std::unique_ptr<StepTrace> trace_;   // null: none
  std::int64_t interval_samples_ = 0;  // of this process since the last line of metrics
  double interval_s_ = 0;
  double first_step_s_ = 0;
  std::int64_t first_step_samples_ = 0;
};

/// The loader of a rank's share of the training set.
LoaderOptions loader_options(const CommonOptions& options, const BatchShare& share);

}  // namespace petaflow
