// Activation functions that fuse with what comes before them.
#pragma once

#include "base/error.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// y = x where x > 0, negative_slope x elsewhere: ReLU with slope 0, LeakyReLU otherwise.
class Relu final : public Layer {
 public:
  explicit Relu(float negative_slope = 0) : negative_slope_(negative_slope) {
    if (!(negative_slope >= 0 && negative_slope <= 1)) {
      user_error("the negative slope of an activation must lie in [0, 1], found {}", negative_slope);
    }
  }

  Shape output(const Shape& x) const override { return x; }
  void lower(Lowering& ops) const override { ops.append(ActivationOp{negative_slope_}); }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    if (negative_slope_ == 0) return {"", fmt::format("F.relu({})", x[0].text)};
    return {"", fmt::format("F.leaky_relu({}, {})", x[0].text, negative_slope_)};
  }

 private:
  float negative_slope_;
};

}  // namespace petaflow
