// Softmax cross-entropy at every pixel of a map, with weights of classes and samples, forward and backward together; as
// a focal loss (Lin et al. 2017, arXiv:1708.02002) it leaves pixels aside that are right already.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/context.hpp"
#include "base/tensor.hpp"

namespace petaflow {

/// Operands of pixel_softmax_cross_entropy; null: not wanted (loss is always wanted).
struct PixelSoftmax {
  Tensor logits;                         // (N, C, D, H, W), f32, dense, read
  const std::uint8_t* map = nullptr;     // (N, D, H, W) classes
  float scale = 1;                       // of dlogits
  const float* class_weights = nullptr;  // (C); null: all 1
  int ignored = -1;                      // pixels of this class do not count; -1: all do
  float focus = 0;                       // gamma of the focal loss: factor (1 - p[class])^gamma of a pixel's loss
  float* probabilities = nullptr;        // as logits, = softmax over C; also of padding
  float* loss = nullptr;         // (N), = weight_n * mean over the pixels that count of w[class] (-log p[class])
  Tensor dlogits;                // as logits, or data null; = d sum(loss) / d logits * scale * loss_scale
  std::byte* scratch = nullptr;  // pixel_softmax_scratch_bytes(logits.shape)
};

std::size_t pixel_softmax_scratch_bytes(const Shape& logits);

/// Reads weight and loss_scale from *context.step.  The mean divides by the number of pixels that count, not by
/// their weights.  A sample whose weight is 0 is padding: its gradient and its loss are exactly 0, whatever its logits
/// hold, as are those of one without a pixel that counts.  A class >= C makes the loss NaN, and so the run end.  Sums
/// are in an order that depends on the shape alone.  Throws a failure where shapes or types do not fit.
void pixel_softmax_cross_entropy(const Context& context, const PixelSoftmax& args);

}  // namespace petaflow
