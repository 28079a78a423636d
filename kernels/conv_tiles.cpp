#include "kernels/conv_tiles.hpp"

#include "kernels/tiles.hpp"

namespace petaflow {
namespace {

std::string why_not_tiles(Pass pass, std::span<const ConvDesc> boxes) {
  return may_use_tiles() ? tiles::why_not(pass, boxes) : "no tiles (Intel AMX) here";
}

// Transposing x costs most where its channels are few.
std::string why_not_dots(Pass pass, std::span<const ConvDesc> boxes) {
  const ConvDesc& desc = boxes.front();
  if (std::min(desc.in_channels, desc.out_channels) < tiles::kEdge) return "for 16 or more channels only";
  return tiles::why_not(pass, boxes);
}

}  // namespace

extern const ConvImpl kConvTiles;
extern const ConvImpl kConvDots;
const ConvImpl kConvTiles = {"tiles", why_not_tiles, tiles::make<tiles::TileProducts<Tiles>>, ConvScope::kSome};
const ConvImpl kConvDots = {"dots", why_not_dots, tiles::make<tiles::DotProducts>, ConvScope::kSome};

}  // namespace petaflow
