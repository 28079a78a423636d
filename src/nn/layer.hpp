// What a layer declares: shapes, parameters, cost, and the operations that it consists of.  It computes nothing itself.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/shape.hpp"

namespace petaflow {

class Lowering;

/// A trainable array in PyTorch's layout.
struct ParamSpec {
  std::string name;  // "weight", "bias"
  std::vector<std::int64_t> dims;
  double init_std = 0;  // first values are normal with this standard deviation; 0: zeros
  bool decays = true;   // weight decay applies

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

/// He et al. 2015: keeps the variance of activations behind rectifiers.
inline double he_std(std::int64_t fan_in) { return std::sqrt(2.0 / static_cast<double>(fan_in)); }

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
