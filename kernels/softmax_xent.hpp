// Softmax and cross-entropy with sample weights, forward and backward in one pass.
#pragma once

#include <cstdint>

#include "base/context.hpp"
#include "base/tensor.hpp"

namespace petaflow {

/// Operands of softmax_cross_entropy; null: not wanted (loss is always wanted).
struct SoftmaxCrossEntropy {
  Tensor logits;                         // (N, C, 1, 1, 1), f32 or bf16, read
  const std::int32_t* labels = nullptr;  // (N); < 0: not known
  float scale = 1;                       // of dlogits
  float* probabilities = nullptr;        // (N, C), = softmax(logits); also of padding
  float* loss = nullptr;                 // (N), = -log p(label), without weight; 0 where padding
  Tensor dlogits;                        // as logits, or data null; = (p - onehot(label)) weight loss_scale scale
};

/// Reads weight and loss_scale from *context.step.  A slot whose label is < 0 or whose weight is 0 is padding:
/// its gradient and its loss are exactly 0, whatever its logits hold.  A label >= C makes the loss NaN. All
/// pointers are in the memory of the execution space.  Throws a failure where shapes or types do not fit.
void softmax_cross_entropy(const Context& context, const SoftmaxCrossEntropy& args);

}  // namespace petaflow
