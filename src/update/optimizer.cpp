#include "update/optimizer.hpp"

#include <algorithm>

namespace petaflow {
namespace {

float f32(double value) { return static_cast<float>(value); }

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options, const std::vector<Parameter>& parameters)
    : options_(options), rule_(make_rule(options)) {
  std::int64_t end = 0;
  std::vector<ParameterRange> tensors;
  for (const Parameter& parameter : parameters) {
    const std::int64_t begin = parameter.offset;
    end = begin + parameter.spec.elements();
    if (!parameter.spec.trained()) {
      running_.push_back({begin, end, f32(parameter.spec.running_momentum)});
      continue;
    }
    tensors.push_back({begin, end, parameter.spec.decays});
    // LARC treats no two tensors alike.
    if (options.larc == 0 && !ranges_.empty() && ranges_.back().end == begin &&
        ranges_.back().decays == parameter.spec.decays) {
      ranges_.back().end = end;
    } else {
      ranges_.push_back(tensors.back());
    }
  }
  if (options.larc > 0 || options.clip_norm > 0) {
    factors_ = std::make_unique<GradientFactors>(
        GradientFactorOptions{f32(options.clip_norm), f32(options.larc), rule_->l2_decay()}, tensors);
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      ranges_[i].clip = factors_->clip();
      if (options.larc > 0) ranges_[i].trust = factors_->trust(i);
    }
  }
  for (const char* name : rule_->states()) {
    arrays_.emplace_back(fmt::format("petaflow::optimizer::{}", name), static_cast<std::size_t>(end));
    states_.push_back(arrays_.back().data());
  }
}

std::vector<OptimizerState> Optimizer::states() const {
  const std::vector<const char*> names = rule_->states();
  std::vector<OptimizerState> states;
  for (std::size_t i = 0; i < names.size(); ++i) states.push_back({names[i], states_[i]});
  return states;
}

std::size_t Optimizer::state_bytes() const {
  std::size_t bytes = 0;
  for (const auto& array : arrays_) bytes += array.size() * sizeof(float);
  return bytes;
}

void Optimizer::step(const Context& context, std::int64_t begin, std::int64_t end, const float* gradient,
                     float* weights) {
  if (factors_) factors_->compute(context, begin, end, gradient, weights);
  for (ParameterRange range : ranges_) {
    range.begin = std::max(range.begin, begin);
    range.end = std::min(range.end, end);
    if (range.begin >= range.end) continue;
    rule_->step(context, range, gradient, weights, states_);
  }
  for (const Running& running : running_) {
    if (running.begin < begin || running.end > end) continue;
    running_step(context, running.momentum, running.begin, running.end, gradient, weights);
  }
}

}  // namespace petaflow
