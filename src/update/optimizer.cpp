#include "update/optimizer.hpp"

#include <algorithm>
#include <utility>

namespace petaflow {
namespace {

float f32(double value) { return static_cast<float>(value); }

bool has_factors(const OptimizerOptions& options) { return options.larc > 0 || options.clip_norm > 0; }

std::vector<ParameterRange> trained_tensors(const std::vector<Parameter>& parameters) {
  std::vector<ParameterRange> tensors;
  for (const Parameter& parameter : parameters) {
    if (!parameter.spec.trained()) continue;
    tensors.push_back({parameter.offset, parameter.offset + parameter.spec.elements(), parameter.spec.decays});
  }
  return tensors;
}

Slice all_of(const std::vector<Parameter>& parameters) {
  return {0, parameters.empty() ? 0 : parameters.back().offset + parameters.back().spec.elements()};
}

}  // namespace

std::vector<std::int64_t> optimizer_cuts(const OptimizerOptions& options, const std::vector<Parameter>& parameters) {
  if (!has_factors(options)) return {};
  return GradientFactors::cuts(trained_tensors(parameters));
}

Optimizer::Optimizer(const OptimizerOptions& options, const std::vector<Parameter>& parameters)
    : Optimizer(options, parameters, {all_of(parameters)}) {
  shared_ = false;
}

Optimizer::Optimizer(const OptimizerOptions& options, const std::vector<Parameter>& parameters, std::vector<Slice> own)
    : options_(options), rule_(make_rule(options)), own_(std::move(own)), shared_(true) {
  const std::vector<ParameterRange> tensors = trained_tensors(parameters);
  std::vector<ParameterRange> ranges = tensors;
  if (has_factors(options)) {
    factors_ = std::make_unique<GradientFactors>(
        GradientFactorOptions{f32(options.clip_norm), f32(options.larc), rule_->l2_decay()}, tensors);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      ranges[i].clip = factors_->clip();
      if (options.larc > 0) ranges[i].trust = factors_->trust(i);
    }
  }
  std::int64_t elements = 0;
  for (const Slice& slice : own_) {
    const std::int64_t state = elements - slice.begin;
    elements += slice.size();
    for (ParameterRange range : ranges) {
      range.begin = std::max(range.begin, slice.begin);
      range.end = std::min(range.end, slice.end);
      range.state = state;
      if (range.begin >= range.end) continue;
      // LARC treats no two tensors alike.
      if (options.larc == 0 && !ranges_.empty() && ranges_.back().end == range.begin &&
          ranges_.back().decays == range.decays && ranges_.back().state == state) {
        ranges_.back().end = range.end;
      } else {
        ranges_.push_back(range);
      }
    }
    for (const Parameter& parameter : parameters) {
      const std::int64_t begin = std::max(parameter.offset, slice.begin),
                         end = std::min(parameter.offset + parameter.spec.elements(), slice.end);
      if (!parameter.spec.trained() && begin < end) {
        running_.push_back({begin, end, f32(parameter.spec.running_momentum)});
      }
    }
  }
  for (const char* name : rule_->states()) {
    arrays_.emplace_back(fmt::format("petaflow::optimizer::{}", name), static_cast<std::size_t>(elements));
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

void Optimizer::share_factors(const Context& context, const float* gradient, const float* weights,
                              const std::function<void(std::span<double>)>& sum_over_ranks) {
  if (factors_) factors_->compute_shared(context, own_, gradient, weights, sum_over_ranks);
}

void Optimizer::step(const Context& context, std::int64_t begin, std::int64_t end, const float* gradient,
                     float* weights) {
  if (factors_ && !shared_) factors_->compute(context, begin, end, gradient, weights);
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
