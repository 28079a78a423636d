// The part that adam and adamw share: the moments of the gradient, and the change that follows from them.
//
// Kingma & Ba 2015 (arXiv:1412.6980), algorithm 1, with epsilon added to sqrt(v / (1 - beta2^t)) as PyTorch does.
#pragma once

#include <cmath>

#include "base/context.hpp"
#include "update/optimizer_options.hpp"
#include "update/rule_kernel.hpp"

namespace petaflow {

struct AdamMoments {
  static constexpr int kStates = 2;
  static std::vector<const char*> options() { return {"beta1", "beta2", "epsilon"}; }
  static std::vector<const char*> states() { return {"exp_avg", "exp_avg_sq"}; }

  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;

  explicit AdamMoments(const OptimizerOptions& options)
      : beta1(static_cast<float>(options.beta1)),
        beta2(static_cast<float>(options.beta2)),
        epsilon(static_cast<float>(options.epsilon)) {}

  struct AtStep {
    float beta1, beta2, epsilon;
    float rate;  // learning rate / (1 - beta1^t)
    float root;  // 1 / sqrt(1 - beta2^t)

    /// Takes the direction into the moments; what is to be taken off the weight.
    KOKKOS_INLINE_FUNCTION float change(RuleElement<kStates>& element) const {
      const float d = element.direction;
      const float m = beta1 * element.state[0] + (1 - beta1) * d;
      const float v = beta2 * element.state[1] + (1 - beta2) * d * d;
      element.state[0] = m;
      element.state[1] = v;
      return rate * m / (::sqrtf(v) * root + epsilon);
    }
  };

  KOKKOS_INLINE_FUNCTION AtStep at(const StepState& step) const {
    const double t = static_cast<double>(step.step + 1);
    return {beta1, beta2, epsilon,
            static_cast<float>(static_cast<double>(step.learning_rate) / (1 - ::pow(double{beta1}, t))),
            static_cast<float>(1 / ::sqrt(1 - ::pow(double{beta2}, t)))};
  }
};

}  // namespace petaflow
