// Cells are items, in f32; their losses are added in f64, in order.
#include "kernels/detection_loss.hpp"

#include "kernels/launch.hpp"

namespace petaflow {
namespace {

/// |d| without a kink, and its derivative.
struct Smooth {
  float value, slope;
  KOKKOS_INLINE_FUNCTION explicit Smooth(float d)
      : value(::fabsf(d) < 1 ? d * d / 2 : ::fabsf(d) - 0.5F),
        slope(d > 1    ? 1.0F
              : d < -1 ? -1.0F
                       : d) {}
};

struct LossOfCell {
  std::int64_t height, width, channels, most;
  const std::byte* boxes;
  float cell;
  DetectionWeights weights;
  float scale;
  const StepState* step;
  const float* cells;
  float *scores, *dcells, *loss;

  /// The boxes of a sample, of which there may be -1.
  struct Boxes {
    std::int32_t count;
    const float* fields;
    KOKKOS_INLINE_FUNCTION Boxes(const std::byte* boxes, std::int64_t most, std::int64_t n) {
      constexpr auto kBytes = static_cast<std::int64_t>(sizeof(float));  // of a field, and of the count
      static_assert(kBytes == sizeof(std::int32_t));
      const std::byte* const own = boxes + n * (1 + most * kBoxFields) * kBytes;
      count = *reinterpret_cast<const std::int32_t*>(own);
      fields = reinterpret_cast<const float*>(own + sizeof(std::int32_t));
    }
  };

  /// Softmax cross-entropy times a weight, of `count` logits from `first` on; a class behind them is none of them.
  KOKKOS_INLINE_FUNCTION float cross_entropy(std::int64_t at, std::int64_t first, std::int64_t count,
                                             std::int64_t label, float weight, float gradient_scale) const {
    const float* x = cells + at + first;
    float largest = x[0];
    for (std::int64_t c = 1; c < count; ++c) largest = x[c] > largest ? x[c] : largest;
    float sum = 0;
    for (std::int64_t c = 0; c < count; ++c) sum += ::expf(x[c] - largest);
    for (std::int64_t c = 0; c < count; ++c) {
      const float p = ::expf(x[c] - largest) / sum;
      if (scores != nullptr) scores[at + first + c] = p;
      if (dcells == nullptr) continue;
      const float factor = weight * gradient_scale;
      dcells[at + first + c] = factor == 0 ? 0.0F : factor * (p - (c == label ? 1.0F : 0.0F));
    }
    if (weight == 0) return 0;
    return label < count ? weight * (largest - x[label] + ::logf(sum)) : static_cast<float>(NAN);
  }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t column = item % width, row = item / width % height, n = item / width / height,
                       at = item * channels, kinds = channels - kCellKinds;
    const Boxes given(boxes, most, n);
    const bool counts = step->weight[n] != 0 && given.count >= 0;
    const float gradient_scale = counts ? step->weight[n] * step->loss_scale * scale : 0.0F;
    const float* found = nullptr;
    for (std::int32_t b = 0; b < given.count && counts; ++b) {
      const CellBox box(given.fields + b * kBoxFields, cell);
      if (box.row == static_cast<float>(row) && box.column == static_cast<float>(column))
        found = given.fields + b * kBoxFields;
    }
    float sum = 0;
    float target[kCellBox] = {};
    if (found != nullptr) {
      const CellBox box(found, cell);
      target[kCellX] = box.x, target[kCellY] = box.y;
      target[kCellWidth] = box.log_width, target[kCellHeight] = box.log_height;
    }
    for (int c = 0; c < kCellBox; ++c) {
      const float weight = found == nullptr ? 0.0F : c < kCellWidth ? weights.position : weights.size;
      const Smooth smooth(found == nullptr ? 0.0F : cells[at + c] - target[c]);
      sum += weight * smooth.value;
      if (scores != nullptr) scores[at + c] = cells[at + c];
      if (dcells != nullptr) dcells[at + c] = weight * gradient_scale * smooth.slope;
    }
    const bool has = found != nullptr;
    sum += cross_entropy(at, kCellBox, 2, has ? 0 : 1,
                         !counts ? 0.0F
                         : has   ? weights.box
                                 : weights.none,
                         gradient_scale);
    const auto kind = static_cast<std::int64_t>(has ? found[kBoxFields - 1] : 0.0F);
    sum += cross_entropy(at, kCellKinds, kinds, kind < 0 ? kinds : kind, has ? weights.kind : 0.0F, gradient_scale);
    loss[item] = sum;
  }
};

struct LossOfFrame {
  std::int64_t cells;
  const StepState* step;
  const float* of_cell;
  float* loss;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t n) const {
    double sum = 0;
    for (std::int64_t i = n * cells; i < (n + 1) * cells; ++i) sum += static_cast<double>(of_cell[i]);
    loss[n] = step->weight[n] == 0 ? 0.0F : step->weight[n] * static_cast<float>(sum);
  }
};

}  // namespace

std::size_t detection_scratch_bytes(const Shape& cells) {
  return static_cast<std::size_t>(cells.n * cells.pixels()) * sizeof(float);
}

void detection_loss(const Context& context, const Detection& args) {
  const Tensor &x = args.cells, &dx = args.dcells;
  PETAFLOW_REQUIRE(args.boxes != nullptr && args.loss != nullptr && args.scratch != nullptr && context.step != nullptr,
                   "boxes, the loss, its scratch and the state of the step are needed");
  PETAFLOW_REQUIRE(x.shape.d == 1 && x.shape.c > kCellKinds && x.pixel_stride == x.shape.c, "cells {}",
                   to_string(x.shape));
  PETAFLOW_REQUIRE(dx.data == nullptr || (dx.shape == x.shape && dx.pixel_stride == x.shape.c),
                   "gradient {} of cells {}", to_string(dx.shape), to_string(x.shape));
  auto* const of_cell = reinterpret_cast<float*>(args.scratch);
  launch(context, "petaflow::detection_loss[kokkos]"_label, x.shape.n * x.shape.pixels(),
         LossOfCell{x.shape.h, x.shape.w, x.shape.c, args.most, static_cast<const std::byte*>(args.boxes), args.cell,
                    args.weights, args.scale, context.step, x.as<float>(), args.scores,
                    dx.data != nullptr ? dx.as<float>() : nullptr, of_cell});
  launch(context, "petaflow::detection_loss::sum[kokkos]"_label, x.shape.n,
         LossOfFrame{x.shape.pixels(), context.step, of_cell, args.loss});
}

}  // namespace petaflow
