#include "kernels/conv_tiles.hpp"

#include <fmt/format.h>

#include "kernels/tiles.hpp"

namespace petaflow {
namespace {

std::string why_not_tiles(Pass pass, std::span<const ConvDesc> boxes) {
  return may_use_tiles() ? tiles::why_not(pass, boxes) : "no tiles (Intel AMX) here";
}

// Transposing x costs most where its channels are few, and few outputs leave sums unused.
std::string why_not_dots(Pass pass, std::span<const ConvDesc> boxes) {
  if (!lanes::kMultipliesPairs) return "no dot products of bf16 (AVX512_BF16) here";
  if (std::string reason = tiles::why_not(pass, boxes); !reason.empty()) return reason;
  const ConvDesc& desc = boxes.front();
  if (std::min(desc.in_channels, desc.out_channels) < tiles::kEdge)
    return fmt::format("for {} or more channels only", tiles::kEdge);
  return {};
}

}  // namespace

extern const ConvImpl kConvTiles;
extern const ConvImpl kConvDots;
const ConvImpl kConvTiles = {"tiles", why_not_tiles, tiles::make<tiles::TileProducts<Tiles>>, ConvScope::kSome};
const ConvImpl kConvDots = {"dots", why_not_dots, tiles::make<tiles::DotProducts>, ConvScope::kSome};

}  // namespace petaflow
