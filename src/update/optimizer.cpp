#include "update/optimizer.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.hpp"

namespace petaflow {
namespace {

float f32(double value) { return static_cast<float>(value); }

bool has_factors(const OptimizerOptions& options) { return options.larc > 0 || options.clip_norm > 0; }

/// The parts of ranges that lie in slices whose state is kept one after the other.
/// @param apart  every range is a tensor that is treated by itself; otherwise neighbours that are treated alike are one
std::vector<ParameterRange> ranges_in(const std::vector<Slice>& slices, const std::vector<ParameterRange>& ranges,
                                      bool apart) {
  std::vector<ParameterRange> parts;
  std::int64_t elements = 0;
  for (const Slice& slice : slices) {
    const std::int64_t state = elements - slice.begin;
    elements += slice.size();
    for (ParameterRange range : ranges) {
      range.begin = std::max(range.begin, slice.begin);
      range.end = std::min(range.end, slice.end);
      range.state = state;
      if (range.begin >= range.end) continue;
      if (!apart && !parts.empty() && parts.back().end == range.begin && parts.back().decays == range.decays &&
          parts.back().state == state) {
        parts.back().end = range.end;
      } else {
        parts.push_back(range);
      }
    }
  }
  return parts;
}

bool in_scope(ArrayScope scope, const Parameter& parameter) {
  return scope == ArrayScope::kAll || parameter.spec.decays;
}

std::vector<ParameterRange> ranges_of(const std::vector<Parameter>& trained, ArrayScope decay_scope) {
  std::vector<ParameterRange> ranges;
  for (const Parameter& parameter : trained) {
    ranges.push_back(
        {parameter.offset, parameter.offset + parameter.spec.elements(), in_scope(decay_scope, parameter)});
  }
  return ranges;
}

/// Lets those in the scope move at rates of their own.
void set_trust(const GradientFactors& factors, ArrayScope scope, const std::vector<Parameter>& trained,
               std::vector<ParameterRange>& ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (in_scope(scope, trained[i])) ranges[i].trust = factors.trust(i);
  }
}

/// use(slice) for neighbouring tensors of a part, whose updates are given and then used: all of it on a device; on a
/// host so many that updates and weights stay in the last cache meanwhile.
template <class Use>
void for_tensors_at_once(const std::vector<ParameterRange>& tensors, const Slice& part, const Use& use) {
  // Five arrays of 2 MB (DeepCAM's 54 million weights, Zen 4, two threads).
  constexpr std::int64_t kElements = kOnHost ? 512 * 1024 : std::numeric_limits<std::int64_t>::max();
  Slice slice;
  for (const ParameterRange& tensor : tensors) {
    if (tensor.begin < part.begin || tensor.end > part.end) continue;
    if (slice.size() > 0 && tensor.end - slice.begin > kElements) use(std::exchange(slice, {}));
    slice = {slice.size() > 0 ? slice.begin : tensor.begin, tensor.end};
  }
  if (slice.size() > 0) use(slice);
}

Slice all_of(const std::vector<Parameter>& parameters) {
  return {0, parameters.empty() ? 0 : parameters.back().offset + parameters.back().spec.elements()};
}

}  // namespace

std::vector<Parameter> trained(const std::vector<Parameter>& all) {
  std::vector<Parameter> trained;
  std::ranges::copy_if(all, std::back_inserter(trained), [](const Parameter& p) { return p.spec.trained(); });
  return trained;
}

bool needs_whole_tensors(const OptimizerOptions& options) {
  const std::unique_ptr<OptimizerRule> rule = make_rule(options);
  return has_factors(options) || rule->gives_update() || rule->tuned();
}

std::vector<std::int64_t> optimizer_cuts(const OptimizerOptions& options, const std::vector<Parameter>& parameters) {
  if (!needs_whole_tensors(options)) return {};
  return GradientFactors::cuts(ranges_of(trained(parameters), options.decay_scope));
}

Optimizer::Optimizer(const OptimizerOptions& options, const std::vector<Parameter>& parameters,
                     const std::optional<std::vector<Slice>>& own)
    : options_(options),
      rule_(make_rule(options)),
      own_(own ? *own : std::vector{all_of(parameters)}),
      shared_(own.has_value()) {
  const std::vector<Parameter> arrays = trained(parameters);
  const std::vector<ParameterRange> tensors = ranges_of(arrays, options.decay_scope);
  std::vector<ParameterRange> ranges = tensors;
  if (has_factors(options)) {
    factors_ =
        std::make_unique<GradientFactors>(GradientFactorOptions{f32(options.clip_norm), f32(options.larc),
                                                                rule_->l2_decay(), options.larc_form, options.ranks},
                                          tensors);
    for (ParameterRange& range : ranges) range.clip = factors_->clip();
    if (options.larc > 0) set_trust(*factors_, options.trust_scope, arrays, ranges);
  }
  if (rule_->tuned()) {
    tuner_ = std::make_unique<YellowFin>(tensors, own_, rule_->l2_decay(), options.closed_loop);
    for (ParameterRange& range : ranges) range.tuned = tuner_->tuned();
  }
  ranges_ = ranges_in(own_, ranges, options.larc > 0);
  if (rule_->gives_update()) {
    update_factors_ =
        std::make_unique<GradientFactors>(GradientFactorOptions{.larc = 1, .form = TrustForm::kLars}, tensors);
    OptimizerOptions plain;
    plain.name = "sgd";
    plain.momentum = 0;
    apply_ = make_rule(plain);
    ranges = tensors;
    set_trust(*update_factors_, options.trust_scope, arrays, ranges);
    apply_ranges_ = ranges_in(own_, ranges, true);
  }
  std::int64_t elements = 0;
  for (const Slice& slice : own_) {
    elements += slice.size();
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
  if (tuner_) arrays_.emplace_back("petaflow::optimizer::exp_avg", static_cast<std::size_t>(elements));
}

void Optimizer::set_momentum(double momentum) {
  options_.momentum = options_.beta1 = momentum;
  options_.keeps_momentum = true;
  rule_ = make_rule(options_);
  PETAFLOW_REQUIRE(rule_->states().size() == states_.size(), "a rule with {} states for one with {}",
                   rule_->states().size(), states_.size());
}

std::vector<OptimizerState> Optimizer::states() const {
  const std::vector<const char*> names = rule_->states();
  std::vector<OptimizerState> states;
  for (std::size_t i = 0; i < names.size(); ++i) states.push_back({names[i], states_[i]});
  if (tuner_) states.push_back({"exp_avg", arrays_.back().data()});
  return states;
}

std::span<float> Optimizer::tuner_numbers() const {
  if (!tuner_) return {};
  return {tuner_->numbers(), static_cast<std::size_t>(YellowFin::kNumbers)};
}

std::size_t Optimizer::state_bytes() const {
  std::size_t bytes = 0;
  for (const auto& array : arrays_) bytes += array.size() * sizeof(float);
  return bytes;
}

void Optimizer::run(const Context& context, const OptimizerRule& rule, const std::vector<ParameterRange>& ranges,
                    const Slice& part, float* gradient, float* weights, const std::vector<float*>& states) {
  for (ParameterRange range : ranges) {
    range.begin = std::max(range.begin, part.begin);
    range.end = std::min(range.end, part.end);
    if (range.begin < range.end) rule.step(context, range, gradient, weights, states);
  }
}

void Optimizer::tune(const Context& context, const float* gradient,
                     const std::function<void(std::span<double>)>* sum_over_ranks) {
  tuner_->tune(context, gradient, clip(), arrays_.back().data(), sum_over_ranks);
}

void Optimizer::follow(const Context& context, const float* gradient, const float* before, const float* at,
                       const float* after) {
  tuner_->follow(context, gradient, clip(), before, at, after);
}

void Optimizer::share_factors(const Context& context, float* gradient, float* weights,
                              const std::function<void(std::span<double>)>& sum_over_ranks) {
  if (factors_) factors_->compute_shared(context, own_, gradient, weights, sum_over_ranks);
  if (tuner_) tune(context, gradient, &sum_over_ranks);
  if (!update_factors_) return;
  for (const Slice& slice : own_) run(context, *rule_, ranges_, slice, gradient, weights, states_);
  update_factors_->compute_shared(context, own_, gradient, weights, sum_over_ranks);
}

void Optimizer::step(const Context& context, std::int64_t begin, std::int64_t end, float* gradient, float* weights) {
  const Slice part{begin, end};
  if (factors_ && !shared_) factors_->compute(context, begin, end, gradient, weights);
  if (tuner_ && !shared_) tune(context, gradient, nullptr);
  if (!apply_) {
    run(context, *rule_, ranges_, part, gradient, weights, states_);
  } else if (shared_) {  // updates were given by share_factors()
    run(context, *apply_, apply_ranges_, part, gradient, weights, {});
  } else {
    for_tensors_at_once(apply_ranges_, part, [&](const Slice& tensors) {
      run(context, *rule_, ranges_, tensors, gradient, weights, states_);
      update_factors_->compute(context, tensors.begin, tensors.end, gradient, weights);
      run(context, *apply_, apply_ranges_, tensors, gradient, weights, {});
    });
  }
  for (const Running& running : running_) {
    if (running.begin < begin || running.end > end) continue;
    running_step(context, running.momentum, running.begin, running.end, gradient, weights);
  }
}

}  // namespace petaflow
