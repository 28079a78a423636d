// Convolutions with stride 2 in the plane as sums of four without stride, one for each phase: every other pixel of
// every other row of x meets every other tap of every other row of the kernel.
//
//   y(o) = sum_t x(2 o + t - pad) w(t) = sum_r sum_u x_r(o + u - pad_r) w_r(u),   w_r(u) = w(2 u + r),  r = 0, 1
//
// in each direction, where x_r are the pixels 2 j + first_r of x.  The phases of x stand side by side as channels, so
// that y, or its gradient, is transformed once: C channels with 5 x 5 taps become 4 C with 3 x 3.  Where the kernel has
// an odd number of taps, those of r = 1 are one fewer than those of r = 0, the last w_r is zero, and with it what is
// transformed for one position of a patch.  By transforms that compute 16 pixels of a 3 x 3 convolution by 36 products,
// 5 x 5 taps take 121 products there, 0.30 of the definition's 400; 3 x 3 taps, by transforms for 25 pixels of 2 x 2
// taps, 121 of 225 (256 channels on 384 x 576 pixels, Zen 4, two threads, by sums of products against this: 308 to 223
// ms backward; patches of 3 x 3 pixels gained nothing).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow::winograd {

/// Whether a convolution is to be cut into phases.  Planes of volumes are left alone.
inline bool has_phases(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  return g.stride == Extent{1, 2, 2} && g.kernel.d == 1 && desc.in.d == 1 && desc.out.d == 1;
}

inline constexpr int kPhases = 4;
/// First taps (row, column) of the phases, in such an order that those whose last row or column of taps is not zero
/// follow each other.
inline constexpr std::array<std::array<int, 2>, kPhases> kFirstTaps = {{{1, 0}, {0, 0}, {0, 1}, {1, 1}}};

inline constexpr std::size_t kEvenTaps = 1;  // the phase of taps 0, 2, ... of both directions

/// Whether phases of odd taps have their zero first and not last, for the gradient of x: with odd padding they begin a
/// pixel later than those of even taps otherwise, so that tiles and whole tensors would have other patches.
inline bool begins_with_zero(std::int64_t pad) { return pad % 2 != 0; }

/// Phases [begin, end).
struct PhaseRange {
  std::int64_t begin, end;
};
inline PhaseRange phases_with_taps(bool even_rows_only, bool even_columns_only) {
  return {even_rows_only ? 1 : 0, even_columns_only ? 2 : even_rows_only ? 3 : 4};
}

/// Pixels that a convolution without stride reads or writes: of all of a tensor, or of one phase of x.
struct Pixels {
  std::int64_t h, w;
  std::int64_t pad_h, pad_w;                     // as far before the first one begins the first patch
  std::int64_t first;                            // elements of the tensor before the first one
  std::int64_t zero_row = -1, zero_column = -1;  // positions of a patch without products; -1: none
};

/// The phases of x, or its only one, with the padding of each.
inline std::vector<Pixels> phases_of(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  if (!has_phases(desc)) return {{desc.in.h, desc.in.w, g.pad_begin.h, g.pad_begin.w, 0}};
  std::vector<Pixels> phases;
  for (const auto& [row, column] : kFirstTaps) {
    const std::int64_t h = (row + g.pad_begin.h) % 2, w = (column + g.pad_begin.w) % 2;
    phases.push_back({ceil_div(desc.in.h - h, 2), ceil_div(desc.in.w - w, 2), (h + g.pad_begin.h - row) / 2,
                      (w + g.pad_begin.w - column) / 2, h * desc.x_strides.h + w * desc.x_strides.w});
  }
  return phases;
}

}  // namespace petaflow::winograd
