// Mean square of a tensor as a loss, with sample weights, forward and backward in one pass.
#pragma once

#include <cstddef>

#include "base/context.hpp"
#include "base/tensor.hpp"

namespace petaflow {

/// Operands of square_loss.
struct SquareLossArgs {
  Tensor x;                      // (N, C, D, H, W), f32, dense, read
  float scale = 1;               // of dx
  float* loss = nullptr;         // (N), = weight_n * mean over C D H W of x^2; 0 where padding
  Tensor dx;                     // as x, or data null: not wanted; = d sum(loss) / d x * loss_scale * scale
  std::byte* scratch = nullptr;  // square_loss_scratch_bytes(x.shape)
};

std::size_t square_loss_scratch_bytes(const Shape& x);

/// Reads weight and loss_scale from *context.step.  A sample whose weight is 0 is padding: its loss and its gradient
/// are exactly 0, whatever it holds.  Throws a failure where shapes do not fit.
void square_loss(const Context& context, const SquareLossArgs& args);

}  // namespace petaflow
