// Dropout.
#pragma once

#include "base/error.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// In training y = x / (1 - p) with probability 1 - p and 0 with probability p, element by element; y = x otherwise
/// (Srivastava et al. 2014).  p is rounded to a multiple of 2^-16.
class Dropout final : public Layer {
 public:
  explicit Dropout(float probability) : probability_(probability) {
    if (!(probability >= 0 && probability < 1))
      user_error("a dropout probability must lie in [0, 1), found {}", probability);
  }

  Shape output(const Shape& x) const override { return x; }
  void lower(Lowering& ops) const override {
    if (probability_ > 0) ops.append(DropoutOp{probability_});
  }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    return {"", fmt::format("F.dropout({}, {}, self.training)", x[0].text, probability_)};
  }

 private:
  float probability_;
};

}  // namespace petaflow
