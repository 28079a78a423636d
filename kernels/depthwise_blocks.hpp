// What the passes of depthwise convolutions share: the order of weights, shares of the channels, and the channels of a
// block at some pixels.
#pragma once

#include "kernels/conv.hpp"
#include "kernels/conv_packing.hpp"
#include "kernels/lanes.hpp"

namespace petaflow::depthwise::inline PETAFLOW_LANES {

using lanes::Floats;
using lanes::kBlock;
using lanes::kLanes;
using portable::PackedOrder;

/// The weights, and their gradient, [block of channels][tap][channel in block].
inline PackedOrder order_of(const ConvDesc& desc) { return {1, 1, desc.in_channels, desc.geometry.kernel.volume()}; }

/// Blocks [begin, end) of channels, all of which a host's item takes, so that it reads memory in order.
struct Share {
  std::int64_t begin, end;

  KOKKOS_INLINE_FUNCTION Share(std::int64_t blocks, std::int64_t share, std::int64_t shares)
      : begin(blocks * share / shares), end(blocks * (share + 1) / shares) {}
};
inline std::int64_t shares_of(const PackedOrder& order) { return kOnHost ? 1 : order.blocks(); }

/// Channels of a block at some pixels: all lanes of its registers but of the last one, which may have fewer.
template <int kVectors>
struct Channels {
  int last;  // of the last register

  KOKKOS_INLINE_FUNCTION Channels(const PackedOrder& order, std::int64_t block)
      : last(static_cast<int>(order.targets - block * kBlock - (kVectors - 1) * kLanes)) {
    last = last < kLanes ? last : kLanes;
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION void load(const T* from, Floats (&to)[kVectors]) const {
    for (int v = 0; v < kVectors - 1; ++v) lanes::load(from + v * kLanes, to[v]);
    const T* rest = from + (kVectors - 1) * kLanes;
    last == kLanes ? lanes::load(rest, to[kVectors - 1]) : lanes::load_part(rest, last, to[kVectors - 1]);
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION void store(T* to, const Floats (&value)[kVectors]) const {
    for (int v = 0; v < kVectors - 1; ++v) lanes::store(to + v * kLanes, kLanes, value[v]);
    lanes::store(to + (kVectors - 1) * kLanes, last, value[kVectors - 1]);
  }
};

/// Brings near the channels of a block at some pixels that are read, or written, soon: they lie too far apart for a
/// processor to see an order (128 channels on 192 x 288 pixels of bf16, batch 2, two threads of a Zen 4: 6.6 to 4.7 ms
/// forward; as many pixels ahead as are computed together).  Inlined by force: GCC takes a call that only prefetches
/// for one without effect.
template <int kVectors, class T>
KOKKOS_FORCEINLINE_FUNCTION void fetch([[maybe_unused]] const T* at, [[maybe_unused]] std::int64_t step,
                                       [[maybe_unused]] std::int64_t pixels) {
#if PETAFLOW_NATIVE_LANES
  constexpr std::int64_t kLine = 64 / sizeof(T), kChannels = std::int64_t{kVectors} * kLanes;
  for (std::int64_t p = 0; p < pixels; ++p) {
    for (std::int64_t c = 0; c < kChannels; c += kLine) __builtin_prefetch(at + p * step + c);
  }
#endif
}

}  // namespace petaflow::depthwise::inline PETAFLOW_LANES
