// adamw: the moments of adam_moments.hpp; the weights themselves shrink by rate * weight_decay before the update
// (torch.optim.AdamW; Loshchilov & Hutter, arXiv:1711.05101).
#include "update/adam_moments.hpp"

namespace petaflow {
namespace {

struct AdamW {
  static constexpr int kStates = AdamMoments::kStates;
  static std::vector<const char*> options() { return AdamMoments::options(); }
  static std::vector<const char*> states() { return AdamMoments::states(); }
  static const std::string& label() { return "petaflow::adamw[kokkos]"_label; }

  AdamMoments moments;
  float weight_decay;

  static float l2_decay() { return 0; }

  struct AtStep {
    AdamMoments::AtStep moments;
    float kept;  // of a weight
    float l2_decay = 0;
    KOKKOS_INLINE_FUNCTION void apply(RuleElement<kStates>& element) const {
      const float change = moments.change(element);
      element.weight = element.weight * kept - change;
    }
  };
  KOKKOS_INLINE_FUNCTION AtStep at(const StepState& step, const ParameterRange& range) const {
    return {moments.at(step), range.decays ? 1 - step.learning_rate * weight_decay : 1.0F};
  }
};

}  // namespace

std::unique_ptr<OptimizerRule> make_adamw(const OptimizerOptions& options);
std::unique_ptr<OptimizerRule> make_adamw(const OptimizerOptions& options) {
  return rule_of(AdamW{AdamMoments(options), static_cast<float>(options.weight_decay)});
}

}  // namespace petaflow
