// The stage between tensors of different precision.
#pragma once

#include <string>

#include "nn/stage.hpp"

namespace petaflow {

/// y = x in another type, dx = dy in that of x: bf16 from f32, rounded to nearest even, or the other way round.
class ConvertStage final : public Stage {
 public:
  explicit ConvertStage(const std::string& name);

  void forward(const Context& context) override;
  void backward(const Context& context, float* gradient) override;

 private:
  std::string forward_label_, backward_label_;
};

}  // namespace petaflow
