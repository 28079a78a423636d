// adam: the moments of adam_moments.hpp, with L2 decay in the gradient (torch.optim.Adam).
#include "update/adam_moments.hpp"

namespace petaflow {
namespace {

struct Adam {
  static constexpr int kStates = AdamMoments::kStates;
  static std::vector<const char*> options() { return AdamMoments::options(); }
  static std::vector<const char*> states() { return AdamMoments::states(); }
  static const std::string& label() { return "petaflow::adam[kokkos]"_label; }

  AdamMoments moments;
  float weight_decay;

  float l2_decay() const { return weight_decay; }

  struct AtStep {
    AdamMoments::AtStep moments;
    float l2_decay;
    KOKKOS_INLINE_FUNCTION void apply(RuleElement<kStates>& element) const {
      element.weight = element.weight - moments.change(element);
    }
  };
  KOKKOS_INLINE_FUNCTION AtStep at(const StepState& step, const ParameterRange& range) const {
    return {moments.at(step), range.decays ? weight_decay : 0.0F};
  }
};

}  // namespace

std::unique_ptr<OptimizerRule> make_adam(const OptimizerOptions& options);
std::unique_ptr<OptimizerRule> make_adam(const OptimizerOptions& options) {
  return rule_of(Adam{AdamMoments(options), static_cast<float>(options.weight_decay)});
}

}  // namespace petaflow
