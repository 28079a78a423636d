// The stage between tensors of different precision or place.
#pragma once

#include <string>
#include <vector>

#include "nn/stage.hpp"

namespace petaflow {

/// y = x in another type (bf16 from f32, rounded to nearest even, or the other way round) or with other pixel strides,
/// dx = dy in that of x.
class CopyStage final : public Stage {
 public:
  /// @param reason  for tables, why a copy of the same type is made; may be empty
  CopyStage(const std::string& name, std::string reason);

  bool can_add(std::size_t /*input*/) const override { return true; }
  bool takes_slices() const override { return true; }
  void forward(const Context& context) override;
  void backward(const Context& context, float* gradient) override;
  std::vector<std::string> refusals() const override;

 private:
  std::string forward_label_, backward_label_, reason_;
};

}  // namespace petaflow
