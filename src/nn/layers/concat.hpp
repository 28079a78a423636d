// Concatenation along the channels.
#pragma once

#include "nn/lowering.hpp"

namespace petaflow {

/// Channels of several values one behind the other: (N, C1, D, H, W), (N, C2, D, H, W), ... -> (N, C1 + C2 + ..., D, H,
/// W).  What makes a value writes it in its place, and nothing is copied; copied are inputs and outputs of the network,
/// what lies in another concatenation already, and what a layer that needs whole pixels (Stage::takes_slices) takes or
/// gives.
class Concat final : public Layer {
 public:
  std::vector<Shape> outputs(std::span<const Shape> x) const override {
    Shape y = x.front();
    for (const Shape& other : x.subspan(1)) {
      if (other.extent() != y.extent()) {
        user_error("values of {} and {} cannot be concatenated", to_string(x.front()), to_string(other));
      }
      y.c += other.c;
    }
    return {y};
  }
  void lower(Lowering& ops) const override { ops.append(ConcatOp{}); }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    std::string values;
    for (const PytorchValue& value : x) values += (values.empty() ? "" : ", ") + value.text;
    return {"", fmt::format("torch.cat([{}], 1)", values)};
  }
};

}  // namespace petaflow
