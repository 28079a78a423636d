#include "update/optimizer.hpp"

#include <algorithm>

namespace petaflow {
namespace {

float f32(double value) { return static_cast<float>(value); }

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options, const std::vector<Parameter>& parameters) : options_(options) {
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
    const double decay = decouples_decay() ? 0 : options.weight_decay;
    factors_ = std::make_unique<GradientFactors>(
        GradientFactorOptions{f32(options.clip_norm), f32(options.larc), f32(decay)}, tensors);
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      ranges_[i].clip = factors_->clip();
      if (options.larc > 0) ranges_[i].trust = factors_->trust(i);
    }
  }
  const auto count = static_cast<std::size_t>(end);
  if (is_adam() || options.momentum != 0) first_ = decltype(first_)("petaflow::optimizer::first", count);
  if (is_adam()) second_ = decltype(second_)("petaflow::optimizer::second", count);
}

std::vector<OptimizerState> Optimizer::states() const {
  if (is_adam()) return {{"exp_avg", first_.data()}, {"exp_avg_sq", second_.data()}};
  if (options_.momentum != 0) return {{"momentum_buffer", first_.data()}};
  return {};
}

void Optimizer::step(const Context& context, std::int64_t begin, std::int64_t end, const float* gradient,
                     float* weights) {
  if (factors_) factors_->compute(context, begin, end, gradient, weights);
  for (ParameterRange range : ranges_) {
    range.begin = std::max(range.begin, begin);
    range.end = std::min(range.end, end);
    if (range.begin >= range.end) continue;
    if (is_adam()) {
      const AdamOptions adam{f32(options_.beta1), f32(options_.beta2), f32(options_.epsilon),
                             f32(options_.weight_decay), decouples_decay()};
      adam_step(context, adam, range, gradient, weights, first_.data(), second_.data());
    } else {
      const SgdOptions sgd{f32(options_.momentum), f32(options_.weight_decay)};
      sgd_step(context, sgd, range, gradient, weights, first_.data());
    }
  }
  for (const Running& running : running_) {
    if (running.begin < begin || running.end > end) continue;
    running_step(context, running.momentum, running.begin, running.end, gradient, weights);
  }
}

}  // namespace petaflow
