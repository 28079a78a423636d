#include "train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace petaflow {

Schedule::Schedule(const ScheduleOptions& options, double base_rate, const EpochPlan& epochs, std::int64_t steps)
    : options_(options),
      base_rate_(base_rate),
      epochs_(epochs),
      steps_(steps),
      warmup_(options.warmup_steps + epochs.steps_in(options.warmup_epochs)) {}

float Schedule::rate(std::int64_t step) const {
  const std::int64_t length = std::max<std::int64_t>(1, steps_ - warmup_);
  const double t = std::clamp(static_cast<double>(step - warmup_) / static_cast<double>(length), 0.0, 1.0);
  double factor = 1;
  if (options_.name == "cosine") {
    factor = options_.end_factor + (1 - options_.end_factor) * (1 + std::cos(std::numbers::pi * t)) / 2;
  } else if (options_.name == "polynomial") {
    factor = options_.end_factor + (1 - options_.end_factor) * std::pow(1 - t, options_.power);
  } else if (options_.name == "step") {
    const double epoch = epochs_.epoch_at(step);
    for (const double boundary : options_.step_epochs) factor *= epoch >= boundary ? options_.step_factor : 1;
  }
  if (step < warmup_) factor *= static_cast<double>(step + 1) / static_cast<double>(warmup_);
  return static_cast<float>(base_rate_ * factor);
}

}  // namespace petaflow
