// The kernel of an optimizer rule: teams take chunks, so that what depends on the step alone is computed once per
// chunk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/error.hpp"
#include "base/label.hpp"
#include "kernels/launch.hpp"
#include "update/rule.hpp"

namespace petaflow {

/// One parameter element as a rule sees and changes it.
template <int kStates>
struct RuleElement {
  float direction;  // gradient, clipped, with its L2 decay, times LARC's factor
  float weight;
  float state[kStates > 0 ? kStates : 1];
};

/// Rule is a struct of plain numbers, which kernels copy:
///   static constexpr int kStates, static std::vector<const char*> states(), static const std::string& label()
///   static std::vector<const char*> options()                  OptimizerRule::options()
///   float l2_decay() const
///   AtStep at(const StepState&, const ParameterRange&) const   what depends on step and range alone; on the device
///   AtStep::apply(RuleElement<kStates>&) const            the update of an element; on the device
///   AtStep::l2_decay                                      of this range
///   static constexpr bool kGivesUpdate, kTuned            OptimizerRule::gives_update(), tuned(), where these are
///   true;
///                                                         an update is left in RuleElement::weight
template <class Rule>
class RuleKernel {
 public:
  // Threads of a device do a few elements each, or they wait for memory one element after the other.
  static constexpr std::int64_t kChunk = kOnHost ? 4096 : 1024;

  RuleKernel(const Rule& rule, const ParameterRange& range, const StepState* step, float* gradients, float* weights,
             const std::vector<float*>& states)
      : rule_(rule), range_(range), step_(step), gradients_(gradients), weights_(weights) {
    PETAFLOW_REQUIRE(states.size() == static_cast<std::size_t>(Rule::kStates), "{} arrays of state, not {}",
                     states.size(), Rule::kStates);
    for (std::size_t k = 0; k < states.size(); ++k) states_[k] = states[k];
  }

  void run(const Context& context) const {
    const std::int64_t chunks = (range_.end - range_.begin + kChunk - 1) / kChunk;
    if (chunks == 0) return;
    if constexpr (std::is_same_v<ExecutionSpace, Kokkos::DefaultHostExecutionSpace>) {
      launch_teams(context, Rule::label(), chunks, Kokkos::AUTO, *this);
    } else {
      launch_teams(context, Rule::label(), chunks, 256, *this);
    }
  }

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const auto rule = rule_.at(*step_, range_);
    const float clip = range_.clip == nullptr ? 1.0F : *range_.clip;
    const float trust = range_.trust == nullptr ? 1.0F : *range_.trust;
    const std::int64_t begin = range_.begin + static_cast<std::int64_t>(team.league_rank()) * kChunk;
    float *const gradient = gradients_ + begin, *const weight = weights_ + begin,
                 *const to = kGives ? gradient : weight;
    Kokkos::Array<float*, kArrays> states = states_;
    for (int k = 0; k < Rule::kStates; ++k) states[k] += begin + range_.state;
    const std::int64_t left = range_.end - begin, count = left < kChunk ? left : std::int64_t{kChunk};
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, count), [=](const std::int64_t i) {
      RuleElement<Rule::kStates> element{(gradient[i] * clip + rule.l2_decay * weight[i]) * trust, weight[i], {}};
      for (int k = 0; k < Rule::kStates; ++k) element.state[k] = states[k][i];
      rule.apply(element);
      for (int k = 0; k < Rule::kStates; ++k) states[k][i] = element.state[k];
      to[i] = element.weight;
    });
  }

 private:
  static constexpr bool kGives = requires { Rule::kGivesUpdate; };
  static constexpr std::size_t kArrays = Rule::kStates > 0 ? Rule::kStates : 1;

  Rule rule_;
  ParameterRange range_;
  const StepState* step_;
  float *gradients_, *weights_;
  Kokkos::Array<float*, kArrays> states_;
};

template <class Rule>
class RuleOf final : public OptimizerRule {
 public:
  explicit RuleOf(const Rule& rule) : rule_(rule) {}
  std::vector<const char*> options() const override { return Rule::options(); }
  std::vector<const char*> states() const override { return Rule::states(); }
  float l2_decay() const override { return rule_.l2_decay(); }
  bool gives_update() const override {
    return requires { Rule::kGivesUpdate; };
  }
  bool tuned() const override {
    return requires { Rule::kTuned; };
  }
  void step(const Context& context, const ParameterRange& range, float* gradients, float* weights,
            const std::vector<float*>& states) const override {
    RuleKernel<Rule>(rule_, range, context.step, gradients, weights, states).run(context);
  }

 private:
  Rule rule_;
};

template <class Rule>
std::unique_ptr<OptimizerRule> rule_of(const Rule& rule) {
  return std::make_unique<RuleOf<Rule>>(rule);
}

}  // namespace petaflow
