// Which pixels read which in the portable convolutions, direction by direction, and how a row is cut into blocks of
// pixels that stay in registers.
#pragma once

#include <algorithm>

#include "kernels/conv.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow::portable {

/// One direction: target o reads source (o scale + tap tap_scale + offset) / divisor where that is a whole number in
/// [0, sources).  Forward: scale = stride, divisor = 1.  Backward data: scale = 1, divisor = stride.
struct Axis {
  std::int64_t sources, targets, taps, scale, tap_scale, offset, divisor, source_stride, target_stride;

  KOKKOS_INLINE_FUNCTION std::int64_t source(std::int64_t target, std::int64_t tap) const {
    const std::int64_t q = target * scale + tap * tap_scale + offset;
    return q < 0 || q % divisor != 0 || q / divisor >= sources ? -1 : q / divisor;
  }

  /// f(phase, begin, integral_constant count) for a segment of the direction's targets: targets phase + (begin + i)
  /// divisor, of which up to lanes::kPoints read neighbouring sources together, in blocks of nearly equal size.
  template <int kMost = lanes::kPoints, class F>
  KOKKOS_INLINE_FUNCTION void for_points(std::int64_t segment, std::int64_t segments, const F& f) const {
    for (std::int64_t phase = 0; phase < divisor && phase < targets; ++phase) {
      const std::int64_t points = (targets - phase + divisor - 1) / divisor;
      std::int64_t begin = points * segment / segments;
      const std::int64_t end = points * (segment + 1) / segments;
      while (begin < end) {
        const std::int64_t left = (end - begin + kMost - 1) / kMost;
        const std::int64_t count = (end - begin + left - 1) / left;
        with_constant<kMost>(count, [&](auto known) { f(phase, begin, known); });
        begin += count;
      }
    }
  }
};

/// The three directions of a pass, and the distances between samples.
struct Axes {
  Axis d, h, w;
  std::int64_t samples, source_n, target_n;

  /// Forward, targets are y; backward data, dx.  There packed weights have their taps reversed, so that the sources of
  /// successive taps ascend in both.
  Axes(const ConvDesc& desc, bool backward)
      : d(of(&Extent::d, &Strides::d, desc, backward)),
        h(of(&Extent::h, &Strides::h, desc, backward)),
        w(of(&Extent::w, &Strides::w, desc, backward)),
        samples(desc.n),
        source_n(backward ? desc.y_strides.n : desc.x_strides.n),
        target_n(backward ? desc.x_strides.n : desc.y_strides.n) {}

  std::int64_t rows() const { return samples * d.targets * h.targets; }
  /// Segments of a row, each an item of its own: one where threads have rows enough.
  std::int64_t segments(std::int64_t items, int threads) const {
    if (kOnHost && (threads == 1 || items >= 4 * threads)) return 1;
    return std::max<std::int64_t>(1, ceil_div(w.targets, w.divisor * lanes::kPoints));
  }

 private:
  static Axis of(std::int64_t Extent::* extent, std::int64_t Strides::* stride, const ConvDesc& desc, bool backward) {
    const ConvGeometry& g = desc.geometry;
    const std::int64_t in = desc.in.*extent, out = desc.out.*extent, kernel = g.kernel.*extent, step = g.stride.*extent,
                       dilation = g.dilation.*extent, pad = g.pad_begin.*extent, x = desc.x_strides.*stride,
                       y = desc.y_strides.*stride;
    if (backward) return {out, in, kernel, 1, dilation, pad - (kernel - 1) * dilation, step, y, x};
    return {in, out, kernel, step, dilation, -pad, 1, x, y};
  }
};

}  // namespace petaflow::portable
