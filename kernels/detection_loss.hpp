// Loss of boxes that the cells of a map predict, forward and backward together (Racah et al. 2017, arXiv:1612.02095):
// each cell says whether a box's centre lies in it, where, how large the box is and of which kind.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/context.hpp"
#include "base/tensor.hpp"

namespace petaflow {

/// A box by what the cell around its centre says of it, the cell's edge being 1.
struct CellBox {
  float row = 0, column = 0;            // of the cell
  float x = 0, y = 0;                   // of the centre, from the cell's corner
  float log_width = 0, log_height = 0;  // binary logarithms

  /// @param box   ymin, xmin, ymax, xmax, in pixels
  /// @param cell  edge of a cell in pixels
  KOKKOS_INLINE_FUNCTION CellBox(const float* box, float cell) {
    const float v = (box[0] + box[2]) / (2 * cell), u = (box[1] + box[3]) / (2 * cell);
    row = ::floorf(v), column = ::floorf(u);
    x = u - column, y = v - row;
    log_width = ::log2f((box[3] - box[1]) / cell), log_height = ::log2f((box[2] - box[0]) / cell);
  }
};

/// Channels of a cell: x, y, log_width, log_height, logits of box and no box, logits of the kinds.
enum CellChannel : std::int8_t { kCellX, kCellY, kCellWidth, kCellHeight, kCellBox, kCellNone, kCellKinds };
/// Fields of a box: ymin, xmin, ymax, xmax, in pixels, and its kind.
inline constexpr std::int64_t kBoxFields = 5;

struct DetectionWeights {
  float position = 5, size = 7, box = 1, none = 0.5F, kind = 1;
};

/// Operands of detection_loss; null: not wanted (loss is always wanted).
struct Detection {
  Tensor cells;                 // (N, 6 + kinds, 1, H, W), f32, dense, read
  const void* boxes = nullptr;  // (N) of int32: how many, -1: not known; then (most, kBoxFields) f32
  std::int64_t most = 0;        // room for boxes of a sample
  float cell = 1;               // edge of a cell in pixels
  DetectionWeights weights;
  float scale = 1;               // of dcells
  float* scores = nullptr;       // as cells, = the same with probabilities instead of logits
  float* loss = nullptr;         // (N), = weight_n times the sum over its cells
  Tensor dcells;                 // as cells, or data null; = d sum(loss) / d cells * scale * loss_scale
  std::byte* scratch = nullptr;  // detection_scratch_bytes(cells.shape)
};

std::size_t detection_scratch_bytes(const Shape& cells);

/// Of a cell in which the centre of a box lies (of the last one, where there are several): position (s(x) + s(y)) +
/// size (s(log_width) + s(log_height)) + box (-log p[box]) + kind (-log p[kind]), s being of the difference d the
/// smooth |d|: d^2 / 2 below 1, |d| - 1/2 above; of others none (-log p[none]).  A sample whose boxes are not known, or
/// whose weight is 0 (padding), has the loss 0 and no gradient, whatever its cells hold.  A box of a kind that there is
/// not makes the loss NaN; one whose centre lies outside counts for nothing. Reads weight and loss_scale from
/// *context.step.  Throws a failure where shapes or types do not fit.
void detection_loss(const Context& context, const Detection& args);

}  // namespace petaflow
