// Portable forward and backward-data convolution: the sum over sources and taps for blocks of pixels x channels that
// stay in registers.  Both passes are one loop nest: they differ in how a target position and a tap name a source.
#pragma once

#include "kernels/conv_axis.hpp"
#include "kernels/conv_packing.hpp"

namespace petaflow::portable {

using lanes::unrolled;

template <class T>
struct Gather {
  Axes axes;
  PackedOrder order;
  std::int64_t segments;  // pieces of a row, one item each
  bool merged;            // the taps of a row and their channels are contiguous in source and weights
  const T* source;
  T* target;
  const float* weights;
  const T* zeros;  // order.sources of them: what a pixel outside reads

  std::int64_t items() const { return axes.rows() * segments * order.groups * order.blocks(); }

  /// One row (or a segment of one) x one block of channels.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t block = item % order.blocks();
    item /= order.blocks();
    const std::int64_t group = item % order.groups;
    item /= order.groups;
    const std::int64_t segment = item % segments;
    item /= segments;
    const Axis &d = axes.d, &h = axes.h;
    const std::int64_t oh = item % h.targets;
    item /= h.targets;
    const std::int64_t od = item % d.targets, sample = item / d.targets;
    const Row row = {od,
                     oh,
                     segment,
                     source + sample * axes.source_n + group * order.sources,
                     target + sample * axes.target_n + od * d.target_stride + oh * h.target_stride +
                         group * order.targets + block * lanes::kBlock,
                     weights + order.block_begin(group, block),
                     order.targets - block * lanes::kBlock};
    run_row<lanes::kVectors>(row, static_cast<int>(order.width(block) / lanes::kLanes));
  }

 private:
  struct Row {
    std::int64_t od, oh, segment;
    const T* source;
    T* target;
    const float* weights;
    std::int64_t channels;  // real ones of the block
  };

  template <int kVectors>
  KOKKOS_INLINE_FUNCTION void run_row(const Row& row, int vectors) const {
    if constexpr (kVectors > 1) {
      if (vectors < kVectors) return run_row<kVectors - 1>(row, vectors);
    }
    axes.w.for_points(row.segment, segments, [&](std::int64_t phase, std::int64_t begin, auto count) {
      compute<kVectors, count>(row, phase, begin);
    });
  }

  /// Points begin ... begin + kPoints of a phase (pixels phase + point w.divisor) x kVectors registers of channels.
  template <int kVectors, int kPoints>
  KOKKOS_INLINE_FUNCTION void compute(const Row& row, std::int64_t phase, std::int64_t begin) const {
    const Axis &d = axes.d, &h = axes.h, &w = axes.w;
    lanes::Floats sum[kPoints][kVectors] = {};
    constexpr int kWidth = kVectors * lanes::kLanes;
    for (std::int64_t td = 0; td < d.taps; ++td) {
      const std::int64_t id = d.source(row.od, td);
      if (id < 0) continue;
      for (std::int64_t th = 0; th < h.taps; ++th) {
        const std::int64_t ih = h.source(row.oh, th);
        if (ih < 0) continue;
        const T* line = row.source + id * d.source_stride + ih * h.source_stride;
        const float* taps = row.weights + (td * h.taps + th) * w.taps * order.sources * kWidth;
        const std::int64_t origin = phase * w.scale + w.offset;
        if (merged && origin + begin * w.scale >= 0 && origin + (begin + kPoints - 1) * w.scale + w.taps <= w.sources) {
          add_tap<kVectors, kPoints, false>(sum, line, origin + begin * w.scale, w.taps * order.sources, taps);
          continue;
        }
        for (std::int64_t tw = 0; tw < w.taps; ++tw) {
          const std::int64_t q = origin + tw * w.tap_scale;
          if (q % w.divisor != 0) continue;
          const std::int64_t first = q / w.divisor + begin * w.scale, last = first + (kPoints - 1) * w.scale;
          const float* tap = taps + tw * order.sources * kWidth;
          if (first >= 0 && last < w.sources) {
            add_tap<kVectors, kPoints, false>(sum, line, first, order.sources, tap);
          } else if (last >= 0 && first < w.sources) {
            add_tap<kVectors, kPoints, true>(sum, line, first, order.sources, tap);
          }
        }
      }
    }
    T* to = row.target + (phase + begin * w.divisor) * w.target_stride;
    unrolled<kPoints>([&](auto p) {
      unrolled<kVectors>([&](auto v) {
        const std::int64_t left = row.channels - v * lanes::kLanes;
        lanes::store(to + p * w.divisor * w.target_stride + v * lanes::kLanes,
                     static_cast<int>(left < lanes::kLanes ? left : lanes::kLanes), sum[p][v]);
      });
    });
  }

  /// sum[p] += x[p][c] weights[c] over `count` channels; pixels outside of the line read zeros where kEdge.
  template <int kVectors, int kPoints, bool kEdge>
  KOKKOS_FORCEINLINE_FUNCTION void add_tap(lanes::Floats (&sum)[kPoints][kVectors], const T* line, std::int64_t first,
                                           std::int64_t count, const float* tap) const {
    const Axis& w = axes.w;
    const T* x[kPoints];
    unrolled<kPoints>([&](auto p) {
      const std::int64_t pixel = first + p * w.scale;
      x[p] = kEdge && (pixel < 0 || pixel >= w.sources) ? zeros : line + pixel * w.source_stride;
    });
    for (std::int64_t c = 0; c < count; ++c) {
      lanes::Floats weight[kVectors];
      unrolled<kVectors>([&](auto v) { lanes::load(tap + (c * kVectors + v) * lanes::kLanes, weight[v]); });
      unrolled<kPoints>([&](auto p) {
        const float value = static_cast<float>(x[p][c]);
        unrolled<kVectors>([&](auto v) { lanes::multiply_add(sum[p][v], value, weight[v]); });
      });
    }
  }
};

}  // namespace petaflow::portable
