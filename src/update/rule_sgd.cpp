// sgd: v = momentum v + g, w -= rate v, or with Nesterov's momentum w -= rate (g + momentum v) (torch.optim.SGD without
// dampening; v starts at 0), with L2 decay in g.  Without momentum no v is kept.
#include "update/rule_kernel.hpp"

namespace petaflow {
namespace {

struct Sgd {
  static constexpr int kStates = 0;
  static std::vector<const char*> options() { return {"momentum", "nesterov"}; }
  static std::vector<const char*> states() { return {}; }
  static const std::string& label() { return "petaflow::sgd[kokkos]"_label; }

  float weight_decay;

  float l2_decay() const { return weight_decay; }

  struct AtStep {
    float rate, l2_decay;
    KOKKOS_INLINE_FUNCTION void apply(RuleElement<kStates>& element) const {
      element.weight -= rate * element.direction;
    }
  };
  KOKKOS_INLINE_FUNCTION AtStep at(const StepState& step, const ParameterRange& range) const {
    return {step.learning_rate, range.decays ? weight_decay : 0.0F};
  }
};

struct SgdWithMomentum {
  static constexpr int kStates = 1;
  static std::vector<const char*> options() { return Sgd::options(); }
  static std::vector<const char*> states() { return {"momentum_buffer"}; }
  static const std::string& label() { return Sgd::label(); }

  float momentum, weight_decay;
  bool nesterov;

  float l2_decay() const { return weight_decay; }

  struct AtStep {
    float momentum, rate, l2_decay;
    bool nesterov;
    KOKKOS_INLINE_FUNCTION void apply(RuleElement<kStates>& element) const {
      element.state[0] = momentum * element.state[0] + element.direction;
      element.weight -= rate * (nesterov ? element.direction + momentum * element.state[0] : element.state[0]);
    }
  };
  KOKKOS_INLINE_FUNCTION AtStep at(const StepState& step, const ParameterRange& range) const {
    return {momentum, step.learning_rate, range.decays ? weight_decay : 0.0F, nesterov};
  }
};

}  // namespace

std::unique_ptr<OptimizerRule> make_sgd(const OptimizerOptions& options);
std::unique_ptr<OptimizerRule> make_sgd(const OptimizerOptions& options) {
  const auto decay = static_cast<float>(options.weight_decay);
  if (options.momentum == 0 && !options.keeps_momentum) return rule_of(Sgd{decay});
  return rule_of(SgdWithMomentum{static_cast<float>(options.momentum), decay, options.nesterov});
}

}  // namespace petaflow
