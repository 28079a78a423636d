// The walk of an epilogue over the pixels of a tile: plain data and functions for host and devices, internal to
// epilogue.cpp.
#pragma once

#include <cstdint>

#include "kernels/epilogue_operands.hpp"

namespace petaflow::epilogue {

enum class Work { kForward, kForwardMapped, kScatter, kGather };

/// A pass over the pixels of a tile of y (forward, scatter) or v (gather), all channels.
template <class V, class T, class Code, Work kWork>
struct RangePass {
  Operands<V, T, Code> operands;
  TileRange range;

  // An item has a piece of a row on the host, and some channels of a pixel on a device.
  static constexpr std::int64_t kPiece = kOnHost ? 128 : 1;
  static constexpr std::int64_t kChannels = kWidest * lanes::kLanes;
  KOKKOS_INLINE_FUNCTION std::int64_t chunks() const {
    return kOnHost ? 1 : (operands.desc.y.c + kChannels - 1) / kChannels;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t width() const {
    return kWork == Work::kGather ? operands.desc.v.w : operands.desc.y.w;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t pieces() const { return (width() + kPiece - 1) / kPiece; }
  std::int64_t items() const { return range.rows() * pieces() * chunks(); }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t chunk = item % chunks(), piece = item / chunks() % pieces(), row = item / chunks() / pieces();
    const std::int64_t plane = row / range.h.size();
    const Pixel at{range.sample.begin + plane / range.d.size(), range.d.begin + plane % range.d.size(),
                   range.h.begin + row % range.h.size(), piece * kPiece};
    if constexpr (kOnHost) {
      neighbours(operands.stream(), at, at.w + kPiece < width() ? at.w + kPiece : width());
    } else {
      channels(operands.stream(), at, chunk * kChannels, kChannels);
    }
  }

  /// In the calling thread.
  void run() const {
    const RandomStream random = operands.stream();
    for (std::int64_t sample = range.sample.begin; sample < range.sample.end; ++sample) {
      for (std::int64_t d = range.d.begin; d < range.d.end; ++d) {
        for (std::int64_t h = range.h.begin; h < range.h.end; ++h) neighbours(random, {sample, d, h, 0}, width());
      }
    }
  }

 private:
  // Pixels of y, or of v, over which the bias' gradient is summed in f32: the sum of equal numbers, as behind a global
  // average, is off by as many half units in the last place.
  static constexpr std::int64_t kInF32 = 32;

  // Pixels of a row, from at.w to before `last`.
  struct Row {
    Pixel at;
    std::int64_t last;
  };

  // Takes the pixels of a row from at.w to `last`.
  void neighbours(const RandomStream& random, Pixel at, std::int64_t last) const {
    while (at.w < last) {
      const std::int64_t end = at.w + kInF32 < last ? at.w + kInF32 : last;
      if (kWork != Work::kGather && operands.pointwise()) {
        widths<kWidest>(random, Row{at, end}, 0, operands.desc.y.c);
        at.w = end;
      } else {
        side_by_side<4>(random, at, end);
        side_by_side<2>(random, at, end);
        for (; at.w < end; ++at.w) channels(random, at, 0, operands.desc.y.c);
      }
      if constexpr (kWork == Work::kScatter || kWork == Work::kGather) operands.flush_bias_gradient();
    }
  }

  // kPixels at once, as long as they fill a block of registers.
  template <int kPixels>
  void side_by_side(const RandomStream& random, Pixel& at, std::int64_t end) const {
    if constexpr (kOnHost && kWork != Work::kGather) {
      const std::int64_t c = operands.desc.y.c;
      if (c * kPixels != kChannels || !operands.lie_side_by_side()) return;
      for (; at.w + kPixels <= end; at.w += kPixels) block<kWidest, true, kPixels>(random, at, 0, static_cast<int>(c));
    }
  }
  KOKKOS_INLINE_FUNCTION void channels(const RandomStream& random, const Pixel& at, std::int64_t begin,
                                       std::int64_t count) const {
    const std::int64_t c = operands.desc.y.c, end = begin + count < c ? begin + count : c;
    widths<kWidest>(random, at, begin, end);
  }
  // Blocks of kVectors registers as long as they fit, then narrower ones, then the rest of a unit; of a Pixel or a Row.
  template <int kVectors, class Place>
  KOKKOS_INLINE_FUNCTION void widths(const RandomStream& random, const Place& at, std::int64_t c0,
                                     std::int64_t end) const {
    constexpr int kWidth = kVectors * lanes::kLanes;
    for (; c0 + kWidth <= end; c0 += kWidth) block<kVectors, true>(random, at, c0, kWidth);
    if constexpr (kVectors > kUnit) {
      widths<kVectors / 2>(random, at, c0, end);
    } else if (c0 < end) {
      block<kVectors, false>(random, at, c0, static_cast<int>(end - c0));
    }
  }
  template <int kVectors, bool kWhole, int kPixels = 1>
  KOKKOS_INLINE_FUNCTION void block(const RandomStream& random, const Pixel& at, std::int64_t c0, int count) const {
    if constexpr (kWork == Work::kForward || kWork == Work::kForwardMapped) {
      operands.template forward<kVectors, kWhole, kPixels, kWork == Work::kForwardMapped>(random, at, c0, count);
    } else if constexpr (kWork == Work::kScatter) {
      operands.template scatter<kVectors, kWhole, kPixels>(random, at, c0, count);
    } else {
      operands.template gather<kVectors, kWhole>(random, at, c0, count);
    }
  }
  template <int kVectors, bool kWhole>
  KOKKOS_INLINE_FUNCTION void block(const RandomStream& /*random*/, const Row& row, std::int64_t c0, int count) const {
    if constexpr (kWork == Work::kForward || kWork == Work::kForwardMapped) {
      operands.template forward_row<kVectors, kWhole, kWork == Work::kForwardMapped>(row.at, row.last, c0, count);
    } else if constexpr (kWork == Work::kScatter) {
      operands.template scatter_row<kVectors, kWhole>(row.at, row.last, c0, count);
    }
  }
};

}  // namespace petaflow::epilogue
