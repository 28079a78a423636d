// Those who follow a training: logs, traces, checkpoints.
#pragma once

#include <cstdint>
#include <optional>

#include "io/checkpoint.hpp"
#include "metrics/evaluator.hpp"

namespace petaflow {

/// Means over the steps of an interval.
struct IntervalLine {
  std::int64_t step = 0, epoch = 0;  // steps done; from 0
  double loss = 0, lr = 0, samples_per_s = 0, gflops = 0;
  std::optional<double> noise_scale = {};  // samples, a moving average, where it is measured
};

struct ValidationLine {
  std::int64_t step = 0, epoch = 0;
  double loss = 0;  // of the last step
  const Evaluation& evaluation;
};

/// A trial of a search for momentum, learning rate and number of groups (update.tune_groups).
struct TuningLine {
  std::int64_t step = 0, epoch = 0;  // of the first step that goes on with what was found
  std::int64_t groups = 0;
  double momentum = 0, lr = 0;
  double loss = 0;      // infinity: the trial failed
  bool chosen = false;  // the run goes on with it
};

/// Called by the thread that computes, on every rank unless said otherwise; no call communicates.  Only save() throws:
/// a run is not lost because something cannot be logged.
class TrainingListener {
 public:
  virtual ~TrainingListener() = default;
  /// Around all steps of this process; end() also where they fail.
  virtual void begin() {}
  virtual void end(bool /*reached_target*/) {}
  /// @param batch  samples of each of its steps but the last, over all ranks that take it together
  virtual void begin_epoch(std::int64_t /*epoch*/, std::int64_t /*batch*/) {}
  virtual void end_epoch(std::int64_t /*epoch*/) {}
  virtual void begin_step(std::int64_t /*step*/) {}
  virtual void end_step() {}
  virtual void begin_validation(std::int64_t /*epoch*/) {}
  virtual void end_validation(std::int64_t /*epoch*/) {}
  virtual void interval(const IntervalLine& /*line*/) {}
  /// On rank 0.
  virtual void validated(const ValidationLine& /*line*/) {}
  virtual void tuned(const TuningLine& /*line*/) {}
  /// On rank 0: keeps weights and state of a training after `step` steps; what else a checkpoint holds is added.
  /// Gives where they are kept; empty: nowhere.  Throws Error where that fails.
  virtual std::string save(std::int64_t /*step*/, Checkpoint /*checkpoint*/) { return {}; }
};

}  // namespace petaflow
