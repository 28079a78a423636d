// The learning rate as a function of the step.
#pragma once

#include <cstdint>

#include "train/epoch_plan.hpp"
#include "train/options.hpp"

namespace petaflow {

/// A factor of optimizer.lr.  During warm-up (Goyal et al. 2017, section 2.2) it rises linearly: (step + 1) / warm-up
/// steps of what the schedule says.  After it, with t = (step - warm-up) / (steps - warm-up) in [0, 1):
///   constant    1
///   cosine      end + (1 - end) (1 + cos(pi t)) / 2     (Loshchilov and Hutter 2017, equation 5, one cycle)
///   polynomial  end + (1 - end) (1 - t)^power
///   step        step_factor^(number of step_epochs that have passed)
class Schedule {
 public:
  /// @param steps of the whole run
  Schedule(const ScheduleOptions& options, double base_rate, const EpochPlan& epochs, std::int64_t steps);

  /// The learning rate of a step, counted from 0.
  float rate(std::int64_t step) const;
  std::int64_t warmup_steps() const { return warmup_; }

 private:
  ScheduleOptions options_;
  double base_rate_;
  EpochPlan epochs_;
  std::int64_t steps_, warmup_;
};

}  // namespace petaflow
