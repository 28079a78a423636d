// The steps of every epoch of a run, whose batches may grow.
#pragma once

#include <cstdint>
#include <vector>

#include "train/options.hpp"

namespace petaflow {

/// A step takes batches_of(epoch) batches of train.batch samples: one, and train.batch_factor times as many from each
/// of train.batch_epochs on (Smith et al., "Don't Decay the Learning Rate, Increase the Batch Size", ICLR 2018).
class EpochPlan {
 public:
  /// @param train    of one group of ranks, each of whose steps counts (group_options())
  /// @param samples  of the training set, 1 or more
  EpochPlan(const TrainOptions& train, std::int64_t samples);

  std::int64_t batches_of(std::int64_t epoch) const { return phase_of(epoch).batches; }
  std::int64_t steps_of(std::int64_t epoch) const { return phase_of(epoch).steps; }
  std::int64_t first_step_of(std::int64_t epoch) const;
  /// Where a step begins, in epochs.
  double epoch_at(std::int64_t step) const;
  /// Steps in the first `epochs`, rounded.
  std::int64_t steps_in(double epochs) const;
  /// Batches of train.batch in the first `steps`.
  std::int64_t batches_in(std::int64_t steps) const;

 private:
  /// Epochs of equal steps.
  struct Phase {
    std::int64_t epoch = 0, step = 0;  // the first of each
    std::int64_t batches = 1, steps = 1;
  };
  const Phase& phase_of(std::int64_t epoch) const;
  const Phase& phase_at(std::int64_t step) const;

  std::vector<Phase> phases_;
};

}  // namespace petaflow
