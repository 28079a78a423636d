// How the convolution by shifts (conv_shifts.hpp) numbers pixels: blocks whose lines, planes and samples follow each
// other, with as much padding between them as makes every tap a shift of the number.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow::shifts {

inline constexpr int kStep = 32;  // positions that one product of AMX tiles sums over

/// The targets [begin, end) of one direction and the sources that they read.  On a line of `pitch` places, source i
/// lies at place pad + i, and tap t of target i reads place i + t dilation: there, or in the padding that follows.
struct Reach {
  std::int64_t x_begin, x_count, y_begin, y_count, pad, pitch;

  /// @param multiple  the pitch is rounded up to a multiple of it
  Reach(std::int64_t in, std::int64_t span, std::int64_t pad_begin, std::int64_t begin, std::int64_t end,
        std::int64_t multiple = 1)
      : x_begin(std::clamp<std::int64_t>(begin - pad_begin, 0, in)),
        x_count(std::clamp<std::int64_t>(end + span - pad_begin, x_begin, in) - x_begin),
        y_begin(begin),
        y_count(end - begin),
        pad(x_count == 0 ? 0 : pad_begin + x_begin - begin),
        // The padding before a line may be that behind the line before.
        pitch(ceil_div(std::max(x_count + std::max(pad, y_count + span - x_count - pad), y_count), multiple) *
              multiple) {}
};

/// The pixels of a tensor at the positions of a block; directions d, h, w.
struct Frame {
  const Bf16* first;
  Strides strides;
  std::int64_t samples;
  std::array<std::int64_t, 3> pad, count, pitch;

  /// Where the pixels of the positions of a step lie; at `zeros` where there is none.
  void find(std::int64_t step, const Bf16* zeros, const Bf16* (&at)[kStep]) const {
    const std::int64_t begin = step * kStep;
    std::int64_t w = begin % pitch[2], h = begin / pitch[2] % pitch[1], d = begin / pitch[2] / pitch[1] % pitch[0],
                 n = begin / pitch[2] / pitch[1] / pitch[0];
    const auto inside = [&](int axis, std::int64_t place) {
      const auto a = static_cast<std::size_t>(axis);
      return place >= pad[a] && place < pad[a] + count[a];
    };
    const auto line = [&] {
      return n < samples && inside(0, d) && inside(1, h)
                 ? first + n * strides.n + (d - pad[0]) * strides.d + (h - pad[1]) * strides.h
                 : nullptr;
    };
    const Bf16* from = line();
    for (const Bf16*& pixel : at) {
      pixel = from != nullptr && inside(2, w) ? from + (w - pad[2]) * strides.w : zeros;
      if (++w < pitch[2]) continue;
      w = 0;
      if (++h == pitch[1]) h = 0, ++d;
      if (d == pitch[0]) d = 0, ++n;
      from = line();
    }
  }
};

/// A part of a tile whose operands fit the L2 cache in their new orders.
struct Block {
  std::int64_t n_begin, n;
  Reach d, h, w;

  std::int64_t shift(const Extent& distance) const {
    return (distance.d * h.pitch + distance.h) * w.pitch + distance.w;
  }
  /// Steps from the first target to the last one.
  std::int64_t steps() const {
    return ceil_div(shift({(n - 1) * d.pitch + d.y_count - 1, h.y_count - 1, w.y_count - 1}) + 1, kStep);
  }
  /// Steps from the first target to the last source that a tap reads.
  std::int64_t x_steps(const Extent& span) const { return steps() + ceil_div(shift(span), kStep); }
  /// The groups of `size` positions that hold targets, in their order.
  std::vector<std::int32_t> groups(std::int64_t size) const {
    std::vector<std::int32_t> result;
    for (std::int64_t plane = 0; plane < n * d.pitch; ++plane) {
      if (plane % d.pitch >= d.y_count) continue;
      for (std::int64_t line = 0; line < h.y_count; ++line) {
        const std::int64_t begin = shift({plane, line, 0}), end = begin + w.y_count;
        for (std::int64_t group = begin / size; group * size < end; ++group) {
          // A line may begin in the group in which the one before ended.
          if (result.empty() || result.back() < group) result.push_back(static_cast<std::int32_t>(group));
        }
      }
    }
    return result;
  }

  Frame x(const Bf16* from, const Strides& s) const {
    return {from + n_begin * s.n + d.x_begin * s.d + h.x_begin * s.h + w.x_begin * s.w,
            s,
            n,
            {d.pad, h.pad, w.pad},
            {d.x_count, h.x_count, w.x_count},
            {d.pitch, h.pitch, w.pitch}};
  }
  Frame y(const Bf16* from, const Strides& s) const {
    return {from + n_begin * s.n + d.y_begin * s.d + h.y_begin * s.h + w.y_begin * s.w,
            s,
            n,
            {0, 0, 0},
            {d.y_count, h.y_count, w.y_count},
            {d.pitch, h.pitch, w.pitch}};
  }
};

}  // namespace petaflow::shifts
