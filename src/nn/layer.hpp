// What a layer declares: shapes, parameters, cost, and the operations that it consists of.  It computes nothing itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/shape.hpp"

namespace petaflow {

class Lowering;

enum class Distribution { kNormal, kUniform };

/// A trainable array in PyTorch's layout.
struct ParamSpec {
  std::string name;  // "weight", "bias"
  std::vector<std::int64_t> dims;
  double init_std = 0;   // standard deviation of the first values, which are drawn from `distribution`; 0: constant
  bool decays = true;    // weight decay applies
  double init_mean = 0;  // of the first values
  Distribution distribution = Distribution::kNormal;

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
  /// Shape inference; throws a user error naming both shapes where x does not fit.
  virtual Shape output(const Shape& x) const = 0;
  virtual std::vector<ParamSpec> parameters(const Shape& /*x*/) const { return {}; }
  virtual Cost cost(const Shape& /*x*/) const { return {}; }
  /// Appends the operations that the layer consists of.
  virtual void lower(Lowering& ops) const = 0;
};

}  // namespace petaflow
