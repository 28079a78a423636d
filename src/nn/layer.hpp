// A layer declares shapes, parameters, cost, and the operations that it consists of.  It computes nothing itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "nn/pytorch.hpp"

namespace petaflow {

class Lowering;

enum class Distribution { kNormal, kUniform };

/// The part of an array in the operations that a layer consists of, which find theirs by it.
enum class ParamRole { kOther, kWeight, kBias, kRunningMean, kRunningVariance };

/// An array of a layer that checkpoints keep, in PyTorch's layout: trained by the optimizer, or the running mean of a
/// statistic of the batches.
struct ParamSpec {
  std::string name;  // "weight", "bias"
  std::vector<std::int64_t> dims;
  double init_std = 0;   // standard deviation of the first values, which are drawn from `distribution`; 0: constant
  bool decays = true;    // weight decay applies
  double init_mean = 0;  // of the first values
  Distribution distribution = Distribution::kNormal;
  /// In (0, 1]: not trained, but moved by this part of the way to the statistic of each batch (PyTorch's convention).
  /// In the place of its gradient backward() leaves the statistic of the micro-batch times its real samples times
  /// StepState::loss_scale, so that the sum over all micro-batches is the mean per sample.
  double running_momentum = 0;
  ParamRole role = ParamRole::kOther;

  bool trained() const { return running_momentum == 0; }

  std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t dim : dims) product *= dim;
    return product;
  }
};

/// Forward arithmetic of one batch: 2 per multiply-add, convolutions and dense layers only.
struct Cost {
  double flop = 0;
};

class Layer {
 public:
  virtual ~Layer() = default;
  /// Shape inference of a layer of one input and one output; throws a user error naming both shapes where x does not
  /// fit.  Layers of several override outputs() instead.
  virtual Shape output(const Shape& /*x*/) const { failure("a layer without output() or outputs()"); }
  /// Shapes of what the layer gives, from those of what it takes; throws a user error where these do not fit.
  virtual std::vector<Shape> outputs(std::span<const Shape> x) const {
    if (x.size() != 1) user_error("takes one input, found {}", x.size());
    return {output(x.front())};
  }
  /// @param x  shape of the first input, here and below
  virtual std::vector<ParamSpec> parameters(const Shape& /*x*/) const { return {}; }
  virtual Cost cost(const Shape& /*x*/) const { return {}; }
  /// Appends the operations that the layer consists of: the first takes the layer's inputs, each other one what the
  /// one before it gives, and the last one gives the layer's outputs.
  virtual void lower(Lowering& ops) const = 0;
  /// The layer in PyTorch, for export (pytorch.hpp).  Throws a user error where it does not say.
  /// @param self  the expression for its module, if it has one
  virtual PytorchLayer pytorch(const std::string& self, std::span<const PytorchValue> x) const;
};

}  // namespace petaflow
