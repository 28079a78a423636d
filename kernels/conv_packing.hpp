// How the portable convolution orders weights and their gradients: [group][block of targets][tap][source][target in
// block].
#pragma once

#include <string>

#include "kernels/conv.hpp"
#include "kernels/lanes.hpp"
#include "kernels/launch.hpp"

namespace petaflow::portable {

/// Targets are the channels that fill the lanes, sources those summed over.  Blocks hold lanes::kBlock targets, the
/// last one what remains, rounded up to a full register; the padding is zero.
struct PackedOrder {
  std::int64_t groups = 1, sources = 1, targets = 1, taps = 1;  // channels per group

  KOKKOS_INLINE_FUNCTION std::int64_t padded() const {
    return (targets + lanes::kLanes - 1) / lanes::kLanes * lanes::kLanes;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t blocks() const { return (targets + lanes::kBlock - 1) / lanes::kBlock; }
  /// Targets of a block with its padding.
  KOKKOS_INLINE_FUNCTION std::int64_t width(std::int64_t block) const {
    const std::int64_t left = padded() - block * lanes::kBlock;
    return left < lanes::kBlock ? left : lanes::kBlock;
  }
  /// Where the weights of a block begin; they are contiguous: taps * sources rows of width(block).
  KOKKOS_INLINE_FUNCTION std::int64_t block_begin(std::int64_t group, std::int64_t block) const {
    return taps * sources * (group * padded() + block * lanes::kBlock);
  }
  KOKKOS_INLINE_FUNCTION std::int64_t elements() const { return groups * taps * sources * padded(); }
};

/// Moves between PyTorch's order (out, in / groups, taps) and the packed one; runs over the elements of the former.
/// `transposed`: sources are the output channels and the taps are reversed, as backward data wants them.
template <bool kUnpack>
struct PackWeights {
  PackedOrder order;
  bool transposed;
  const float* from;
  float* to;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t element) const {
    const std::int64_t in = transposed ? order.targets : order.sources,
                       out = transposed ? order.sources : order.targets;
    const std::int64_t tap = element % order.taps, c = element / order.taps % in, k = element / order.taps / in;
    const std::int64_t group = k / out, source = transposed ? k % out : c, target = transposed ? c : k % out;
    const std::int64_t block = target / lanes::kBlock,
                       row = (transposed ? order.taps - 1 - tap : tap) * order.sources + source;
    const std::int64_t packed =
        order.block_begin(group, block) + row * order.width(block) + target - block * lanes::kBlock;
    if constexpr (kUnpack) {
      to[element] = from[packed];
    } else {
      to[packed] = from[element];
    }
  }
};

/// Brings a layer's weights into the packed order.
/// @param elements  of the weights, without padding
inline void pack_weights(const Context& context, const std::string& label, const PackedOrder& order, bool transposed,
                         std::int64_t elements, const float* weights, std::byte* packed) {
  auto* const to = reinterpret_cast<float*>(packed);
  if (order.padded() != order.targets) zero(context, to, order.elements());
  launch(context, label, elements, PackWeights<false>{order, transposed, weights, to});
}

}  // namespace petaflow::portable
