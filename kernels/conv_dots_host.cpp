// Backward weights in bf16 by dot products of pairs (AVX512_BF16): conv_shifts.hpp in vectors.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/conv_shifts.hpp"

namespace petaflow {
namespace {

// Transposing x costs most where its channels are few, and few outputs leave sums unused.
std::string why_not_dots(Pass pass, std::span<const ConvDesc> tiles) {
  if (!lanes::kMultipliesPairs) return "no dot products of bf16 (AVX512_BF16) here";
  if (std::string reason = shifts::why_not(pass, tiles); !reason.empty()) return reason;
  const ConvDesc& desc = tiles.front();
  // It multiplies what lies in the padding, too (2048 to 256 channels, dilation 24, 48 x 72 pixels: 168 ms, the
  // portable kernel 104; dilation 6, 24 x 36 pixels: 54, oneDNN 38).
  if (desc.geometry.dilation != Extent{1, 1, 1}) return "without dilation only";
  if (std::min(desc.in_channels, desc.out_channels) < shifts::kEdge)
    return fmt::format("for {} or more channels only", shifts::kEdge);
  return {};
}

}  // namespace

extern const ConvImpl kConvDots;
const ConvImpl kConvDots = {"dots", why_not_dots, shifts::make<shifts::DotProducts>, ConvScope::kSome};

}  // namespace petaflow
