// yellowfin: v = momentum v + rate g, w -= v, with rate and momentum that yellowfin.hpp finds; v is the last step,
// whatever the rates were (arXiv:1706.03471, equation 1), with L2 decay in g.
#include "update/rule_kernel.hpp"

namespace petaflow {
namespace {

struct YellowFinStep {
  static constexpr int kStates = 1;
  static constexpr bool kTuned = true;
  static std::vector<const char*> options() { return {}; }
  static std::vector<const char*> states() { return {"velocity"}; }
  static const std::string& label() { return "petaflow::yellowfin[kokkos]"_label; }

  float weight_decay;

  float l2_decay() const { return weight_decay; }

  struct AtStep {
    float rate, momentum, l2_decay;
    KOKKOS_INLINE_FUNCTION void apply(RuleElement<kStates>& element) const {
      element.state[0] = momentum * element.state[0] + rate * element.direction;
      element.weight -= element.state[0];
    }
  };
  KOKKOS_INLINE_FUNCTION AtStep at(const StepState&, const ParameterRange& range) const {
    return {range.tuned[0], range.tuned[1], range.decays ? weight_decay : 0.0F};
  }
};

}  // namespace

std::unique_ptr<OptimizerRule> make_yellowfin(const OptimizerOptions& options);
std::unique_ptr<OptimizerRule> make_yellowfin(const OptimizerOptions& options) {
  return rule_of(YellowFinStep{static_cast<float>(options.weight_decay)});
}

}  // namespace petaflow
