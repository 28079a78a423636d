// Mean absolute and mean squared error with sample weights, forward and backward in one pass.
#pragma once

#include "base/context.hpp"
#include "base/tensor.hpp"

namespace petaflow {

enum class RegressionError { kAbsolute, kSquared };

/// Operands of regression_loss.
struct RegressionLossArgs {
  Tensor outputs;                  // (N, C, 1, 1, 1), f32, read
  const float* targets = nullptr;  // (N, C)
  float scale = 1;                 // of doutputs
  float* loss = nullptr;  // (N), = weight * mean over C of |output - target| or (output - target)^2; 0 where padding
  Tensor doutputs;        // as outputs, or data null: not wanted; = d loss / d outputs * loss_scale * scale
};

/// Reads weight and loss_scale from *context.step.  A slot whose weight is 0 is padding: its gradient and its
/// loss are exactly 0, whatever its outputs hold, and its targets are not read.  |x| has the derivative 0 at 0.  All
/// pointers are in the memory of the execution space.  Throws a failure where shapes or types do not fit.
void regression_loss(const Context& context, RegressionError error, const RegressionLossArgs& args);

}  // namespace petaflow
