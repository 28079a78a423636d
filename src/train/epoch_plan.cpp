#include "train/epoch_plan.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "data/loader.hpp"

namespace petaflow {

EpochPlan::EpochPlan(const TrainOptions& train, std::int64_t samples) {
  phases_.push_back({0, 0, 1, steps_per_epoch(samples, train.batch)});
  for (const std::int64_t epoch : train.batch_epochs) {
    const std::int64_t step = first_step_of(epoch), batches = phases_.back().batches * train.batch_factor;
    phases_.push_back({epoch, step, batches, steps_per_epoch(samples, batches * train.batch)});
  }
}

const EpochPlan::Phase& EpochPlan::phase_of(std::int64_t epoch) const {
  return *std::prev(std::ranges::upper_bound(phases_, epoch, {}, &Phase::epoch));
}

const EpochPlan::Phase& EpochPlan::phase_at(std::int64_t step) const {
  return *std::prev(std::ranges::upper_bound(phases_, step, {}, &Phase::step));
}

std::int64_t EpochPlan::first_step_of(std::int64_t epoch) const {
  const Phase& phase = phase_of(epoch);
  return phase.step + (epoch - phase.epoch) * phase.steps;
}

double EpochPlan::epoch_at(std::int64_t step) const {
  const Phase& phase = phase_at(step);
  return static_cast<double>(phase.epoch) + static_cast<double>(step - phase.step) / static_cast<double>(phase.steps);
}

std::int64_t EpochPlan::steps_in(double epochs) const {
  const Phase& phase = phase_of(static_cast<std::int64_t>(std::min(epochs, 1e15)));
  return phase.step + std::llround((epochs - static_cast<double>(phase.epoch)) * static_cast<double>(phase.steps));
}

std::int64_t EpochPlan::batches_in(std::int64_t steps) const {
  std::int64_t batches = 0;
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const std::int64_t end = i + 1 < phases_.size() ? std::min(steps, phases_[i + 1].step) : steps;
    batches += std::max<std::int64_t>(0, end - phases_[i].step) * phases_[i].batches;
  }
  return batches;
}

}  // namespace petaflow
