// Where a training run stands between two steps, beside its weights and the optimizer's arrays: what a checkpoint keeps
// so that the run can go on as if it had not been interrupted.
//
// Random numbers need no state: they are keyed by seed, epoch, sample and layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/loss_scale.hpp"
#include "train/noise_scale.hpp"
#include "update/group_search.hpp"

namespace petaflow {

/// A step whose gradient is still to be used (update.lag).
struct LaggedStep {
  double loss = 0;
  std::optional<NoiseEstimate> noise = {};  // where it is measured
  double scale = 1;                         // that its losses were multiplied by
};

struct TrainingState {
  std::int64_t step = 0;             // steps done
  std::int64_t epoch = 0;            // of the next step
  std::int64_t epoch_step = 0;       // steps of it that are done
  bool validation_due = false;       // the epoch or the run is at its end, and not validated yet
  std::int64_t steps_per_epoch = 0;  // what the cursor counts in
  bool ended = false;                // by target or patience, before the last step
  std::optional<double> best;        // of the metric to stop by
  std::int64_t since_best = 0;       // validations
  bool best_kept = false;            // the checkpoint's weights are those of the best validation

  double loss = 0;                 // of the last step that it is known of
  std::vector<LaggedStep> lagged;  // steps whose gradients are still to be used

  std::optional<NoiseScale> noise;  // where it is measured

  std::optional<LossScaleState> loss_scale;  // where losses are multiplied

  std::optional<GroupSearch> search;  // with update.tune_groups
  std::int64_t search_epoch = 0;      // at whose beginning the next search is

  // Since the last line of metrics.
  std::int64_t interval_steps = 0;
  double interval_loss = 0;  // sum over steps
};

/// JSON that reads back to the same bits.
std::string to_text(const TrainingState& state);

/// Throws a user error naming `path` where the text is not one of to_text().
TrainingState state_from_text(const std::string& text, const std::string& path);

}  // namespace petaflow
