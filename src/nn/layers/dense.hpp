// Dense (fully connected) layer.
#pragma once

#include "nn/lowering.hpp"

namespace petaflow {

/// y = x w^T + b.  x (N, C, D, H, W), flattened in memory order (D, H, W, C) -> y (N, outputs).
/// weight (outputs, D H W C), He normal times init_scale; bias (outputs), zero.
class Dense final : public Layer {
 public:
  explicit Dense(std::int64_t outputs, double init_scale = 1) : outputs_(outputs), init_scale_(init_scale) {}

  Shape output(const Shape& x) const override { return {x.n, outputs_, 1, 1, 1}; }
  std::vector<ParamSpec> parameters(const Shape& x) const override {
    return {{"weight", {outputs_, x.sample_size()}, init_scale_ * he_std(x.sample_size()), true},
            {"bias", {outputs_}, 0, false}};
  }
  Cost cost(const Shape& x) const override { return {2.0 * static_cast<double>(x.elements() * outputs_)}; }
  void lower(Lowering& ops) const override {
    ops.append(DenseOp{outputs_});
    ops.append(BiasOp{});
  }

 private:
  std::int64_t outputs_;
  double init_scale_;
};

}  // namespace petaflow
