// lamb: the moments of adam_moments.hpp and decoupled decay; every tensor moves by the learning rate times its own norm
// (You et al., "Large Batch Optimization for Deep Learning", ICLR 2020, algorithm 2, with phi(x) = x; a tensor whose
// norm or update is 0 moves as by adamw).
#include "update/adam_moments.hpp"

namespace petaflow {
namespace {

struct Lamb {
  static constexpr int kStates = AdamMoments::kStates;
  static constexpr bool kGivesUpdate = true;
  static std::vector<const char*> options() { return AdamMoments::options(); }
  static std::vector<const char*> states() { return AdamMoments::states(); }
  static const std::string& label() { return "petaflow::lamb[kokkos]"_label; }

  AdamMoments moments;
  float weight_decay;

  static float l2_decay() { return 0; }

  struct AtStep {
    AdamMoments::AtStep moments;
    float decay;
    float l2_decay = 0;
    KOKKOS_INLINE_FUNCTION void apply(RuleElement<kStates>& element) const {
      element.weight = moments.change(element) + decay * element.weight;
    }
  };
  KOKKOS_INLINE_FUNCTION AtStep at(const StepState& step, const ParameterRange& range) const {
    StepState unit = step;  // the rate comes with the norms
    unit.learning_rate = 1;
    return {moments.at(unit), range.decays ? weight_decay : 0.0F};
  }
};

}  // namespace

std::unique_ptr<OptimizerRule> make_lamb(const OptimizerOptions& options);
std::unique_ptr<OptimizerRule> make_lamb(const OptimizerOptions& options) {
  return rule_of(Lamb{AdamMoments(options), static_cast<float>(options.weight_decay)});
}

}  // namespace petaflow
