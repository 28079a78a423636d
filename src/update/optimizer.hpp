// The optimizers: which state they keep, and the update of all parameters of a network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/slice.hpp"
#include "kernels/gradient_factors.hpp"
#include "kernels/optimizer_step.hpp"
#include "nn/network.hpp"
#include "update/optimizer_options.hpp"
#include "update/rule.hpp"
#include "update/yellowfin.hpp"

namespace petaflow {

/// An array that an optimizer keeps, one element per parameter element of its own slices, under PyTorch's name for it.
struct OptimizerState {
  const char* name;  // "exp_avg"
  float* values;     // in MemorySpace
};

/// A rule (rule.hpp) with clipping and LARC before it.  State is f32 and starts at zero.  Running statistics follow
/// those of the batches, whatever the rule.
class Optimizer {
 public:
  /// Updates all parameters, or this rank's own slices, which begin at optimizer_cuts(); state is kept for these alone,
  /// one after the other.
  Optimizer(const OptimizerOptions& options, const std::vector<Parameter>& parameters,
            const std::optional<std::vector<Slice>>& own = std::nullopt);

  /// The step of the parameters in [begin, end), which end where parameters do, or of an own slice.  Reads
  /// learning_rate and step of the context's step state; weights are updated in place.
  /// @param gradient, weights  flat, in MemorySpace; of the gradient only [begin, end) is read, and overwritten by
  ///                           rules that give updates
  void step(const Context& context, std::int64_t begin, std::int64_t end, float* gradient, float* weights);
  /// Steps take all parameters at once; with own slices share_factors() comes before them.
  bool needs_whole_gradient() const {
    return options_.clip_norm > 0 || tuner_ || (shared_ && (factors_ || update_factors_));
  }
  /// With own slices: what norms of the gradient and of updates need to know of the other ranks' slices.  Collective.
  /// @param gradient        overwritten by rules that give updates, which step() then makes
  /// @param sum_over_ranks  replaces the values, in host memory, by their sum
  void share_factors(const Context& context, float* gradient, float* weights,
                     const std::function<void(std::span<double>)>& sum_over_ranks);

  /// From now on optimizer.momentum, or optimizer.beta1 of rules with that, is this.  What the rule keeps stays.
  void set_momentum(double momentum);

  /// Whether follow() belongs to steps (yellowfin's closed loop), with what YellowFin::follow() takes.
  bool follows() const { return tuner_ && options_.closed_loop; }
  void follow(const Context& context, const float* gradient, const float* before, const float* at, const float* after);

  /// Slices that states() hold, one after the other.
  const std::vector<Slice>& own() const { return own_; }
  std::vector<OptimizerState> states() const;
  /// Numbers that a tuner goes on with, the same on all ranks, in MemorySpace; none with most rules.
  std::span<float> tuner_numbers() const;
  std::size_t state_bytes() const;

 private:
  struct Running {
    std::int64_t begin = 0, end = 0;
    float momentum = 0;
  };

  /// Runs a rule over the part of ranges in [begin, end).
  static void run(const Context& context, const OptimizerRule& rule, const std::vector<ParameterRange>& ranges,
                  const Slice& part, float* gradient, float* weights, const std::vector<float*>& states);
  const float* clip() const { return options_.clip_norm > 0 ? factors_->clip() : nullptr; }
  void tune(const Context& context, const float* gradient,
            const std::function<void(std::span<double>)>* sum_over_ranks);

  OptimizerOptions options_;
  std::unique_ptr<OptimizerRule> rule_;
  std::vector<Slice> own_;
  bool shared_;                         // other ranks have other slices
  std::vector<ParameterRange> ranges_;  // neighbours that are treated alike are one range
  std::vector<Running> running_;        // what is not trained
  std::unique_ptr<GradientFactors> factors_;
  // Of a rule that gives updates: their norms; what applies them, and its ranges.
  std::unique_ptr<GradientFactors> update_factors_;
  std::unique_ptr<OptimizerRule> apply_;
  std::vector<ParameterRange> apply_ranges_;
  std::unique_ptr<YellowFin> tuner_;                       // of a rule that is tuned
  std::vector<Kokkos::View<float*, MemorySpace>> arrays_;  // of the rule, then the tuner's average of gradients
  std::vector<float*> states_;                             // of the rule
};

/// Parameters that the optimizer keeps a state of.
std::vector<Parameter> trained(const std::vector<Parameter>& all);
/// Whether an update depends on norms of whole tensors or of the whole gradient.
bool needs_whole_tensors(const OptimizerOptions& options);
/// Where slices of an optimizer may begin, rising; empty: anywhere.
std::vector<std::int64_t> optimizer_cuts(const OptimizerOptions& options, const std::vector<Parameter>& parameters);

}  // namespace petaflow
