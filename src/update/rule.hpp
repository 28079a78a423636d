// Optimizer rules: how a gradient changes weights, and the arrays that a rule keeps for that.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/context.hpp"
#include "kernels/optimizer_step.hpp"
#include "update/optimizer_options.hpp"

namespace petaflow {

class OptimizerRule {
 public:
  virtual ~OptimizerRule() = default;
  /// Options of the table optimizer that it reads and other rules may not: "beta1".  Elsewhere they do nothing.
  virtual std::vector<const char*> options() const = 0;
  /// PyTorch's names for the arrays that it keeps: f32, one element per element of a parameter, 0 at the start.
  virtual std::vector<const char*> states() const = 0;
  /// Share of weight_decay that is added to the gradient (as weight_decay * w) before LARC takes its norm: all, or none
  /// where the rule shrinks the weights itself.
  virtual float l2_decay() const = 0;
  /// Whether step() leaves in the place of a gradient the update that it asks for, at a rate of 1, instead of making
  /// it: each tensor is then moved by learning rate x |weights| / |update| of it.
  virtual bool gives_update() const = 0;
  /// Whether learning rate and momentum are those of YellowFin, in the `tuned` of ranges.
  virtual bool tuned() const = 0;
  /// One pass over the range: reads learning_rate and step of *context.step (t = step + 1: the caller counts steps
  /// after the update).  Gradients are read; weights and states, one array each, are updated in place; where a rule
  /// gives updates, weights are read and gradients replaced.  All flat, in MemorySpace, indexed by the range, states
  /// from range.state on.
  virtual void step(const Context& context, const ParameterRange& range, float* gradients, float* weights,
                    const std::vector<float*>& states) const = 0;
};

/// The rule of options.name.  Throws a user error where there is none.
std::unique_ptr<OptimizerRule> make_rule(const OptimizerOptions& options);

/// "adam", "adamw", ...
std::vector<std::string> rule_names();

/// The rules of which something holds, each as it is by the defaults of its options.
std::vector<std::string> rule_names(const std::function<bool(const OptimizerRule&)>& holds);

}  // namespace petaflow
