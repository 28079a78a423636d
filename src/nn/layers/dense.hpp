// Dense (fully connected) layer.
#pragma once

#include "nn/initial.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// y = x w^T + b.  x (N, C, D, H, W), flattened in memory order (D, H, W, C) -> y (N, outputs).
/// weight (outputs, D H W C); bias (outputs).
class Dense final : public Layer {
 public:
  explicit Dense(std::int64_t outputs, const Initial& initial = {}) : outputs_(outputs), initial_(initial) {}

  Shape output(const Shape& x) const override { return {x.n, outputs_, 1, 1, 1}; }
  std::vector<ParamSpec> parameters(const Shape& x) const override {
    return {initial_.weight({outputs_, x.sample_size()}, x.sample_size(), outputs_), initial_.biases(outputs_)};
  }
  Cost cost(const Shape& x) const override { return {2.0 * static_cast<double>(x.elements() * outputs_)}; }
  void lower(Lowering& ops) const override {
    ops.append(DenseOp{outputs_});
    ops.append(BiasOp{});
  }
  PytorchLayer pytorch(const std::string& self, std::span<const PytorchValue> x) const override {
    const int axes = pytorch_axes(x[0].shape);
    const std::string flat = axes == 0   ? x[0].text
                             : axes == 2 ? x[0].text + ".permute(0, 2, 3, 1).flatten(1)"
                                         : x[0].text + ".permute(0, 2, 3, 4, 1).flatten(1)";
    return {fmt::format("nn.Linear({}, {})", x[0].shape.sample_size(), outputs_), fmt::format("{}({})", self, flat)};
  }

 private:
  std::int64_t outputs_;
  Initial initial_;
};

}  // namespace petaflow
