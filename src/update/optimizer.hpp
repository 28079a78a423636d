// The optimizers: which state they keep, and the update of all parameters of a network.
#pragma once

#include <memory>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "kernels/gradient_factors.hpp"
#include "kernels/optimizer_step.hpp"
#include "nn/network.hpp"
#include "update/optimizer_options.hpp"
#include "update/rule.hpp"

namespace petaflow {

/// An array that an optimizer keeps, one element per parameter element, under PyTorch's name for it.
struct OptimizerState {
  const char* name;  // "exp_avg"
  float* values;     // in MemorySpace
};

/// A rule (rule.hpp) with clipping and LARC before it.  State is f32 and starts at zero.  Running statistics follow
/// those of the batches, whatever the rule.
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, const std::vector<Parameter>& parameters);

  /// The step of the parameters in [begin, end), which end where parameters do.  Reads learning_rate and step of the
  /// context's step state; weights are updated in place.
  /// @param gradient, weights  flat, in MemorySpace; of the gradient only [begin, end) is read
  void step(const Context& context, std::int64_t begin, std::int64_t end, const float* gradient, float* weights);
  /// Steps take all parameters at once.
  bool needs_whole_gradient() const { return options_.clip_norm > 0; }

  std::vector<OptimizerState> states() const;
  std::size_t state_bytes() const;

 private:
  struct Running {
    std::int64_t begin = 0, end = 0;
    float momentum = 0;
  };

  OptimizerOptions options_;
  std::unique_ptr<OptimizerRule> rule_;
  std::vector<ParameterRange> ranges_;  // neighbours that are treated alike are one range
  std::vector<Running> running_;        // what is not trained
  std::unique_ptr<GradientFactors> factors_;
  std::vector<Kokkos::View<float*, MemorySpace>> arrays_;  // of the rule
  std::vector<float*> states_;                             // the same
};

}  // namespace petaflow
