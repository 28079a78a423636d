// Blocks of channels of one or a few pixels in registers: where they lie, loads, stores and bits of them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/lanes.hpp"

namespace petaflow::channel_blocks::inline PETAFLOW_LANES {

using lanes::unrolled;

/// The real channels of register r of a block.
KOKKOS_INLINE_FUNCTION int channels_of(int r, int count) {
  const int left = count - r * lanes::kLanes;
  return left < 0 ? 0 : left < lanes::kLanes ? left : lanes::kLanes;
}
/// Where register r of a block begins, pixels being `step` elements apart.
template <int kVectors, int kPixels>
KOKKOS_INLINE_FUNCTION std::int64_t begin_of(int r, std::int64_t step) {
  constexpr int kOfPixel = kVectors / kPixels;
  return r / kOfPixel * step + r % kOfPixel * lanes::kLanes;
}
/// Loads the `count` channels of a block of kPixels pixels, all of its lanes where kWhole.
template <bool kWhole, int kPixels = 1, int kVectors, class Element, class Register>
KOKKOS_INLINE_FUNCTION void read_channels(const Element* from, int count, Register (&to)[kVectors],
                                          std::int64_t step = kVectors / kPixels * lanes::kLanes) {
  unrolled<kVectors>([&](auto r) {
    const Element* at = from + begin_of<kVectors, kPixels>(r, step);
    if constexpr (kWhole) {
      lanes::load(at, to[r]);
    } else {
      lanes::load_part(at, channels_of(r, count), to[r]);
    }
  });
}
/// Stores them likewise.
template <bool kWhole, int kPixels = 1, int kVectors, class Element, class Register>
KOKKOS_INLINE_FUNCTION void write_channels(Element* to, int count, const Register (&from)[kVectors],
                                           std::int64_t step = kVectors / kPixels * lanes::kLanes) {
  unrolled<kVectors>([&](auto r) {
    lanes::store(to + begin_of<kVectors, kPixels>(r, step), kWhole ? lanes::kLanes : channels_of(r, count), from[r]);
  });
}
/// Bytes that hold a bit for each channel of a block; of a block of eight, as devices have, one: a constant.
template <int kVectors, bool kWhole>
KOKKOS_INLINE_FUNCTION std::size_t bytes_of_bits(int count) {
  constexpr int kBits = kVectors * lanes::kLanes;
  static_assert(kBits <= 64 && std::endian::native == std::endian::little);
  return kWhole || kBits == 8 ? kBits / 8 : static_cast<std::size_t>(count + 7) / 8;
}

}  // namespace petaflow::channel_blocks::inline PETAFLOW_LANES
