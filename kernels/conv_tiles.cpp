#include "kernels/conv_tiles.hpp"

#include "kernels/tiles.hpp"

namespace petaflow {

extern const ConvImpl kConvTiles;
const ConvImpl kConvTiles = {"tiles",
                             [](Pass pass, std::span<const ConvDesc> boxes) -> std::string {
                               return may_use_tiles() ? tiles::why_not(pass, boxes) : "no tiles (Intel AMX) here";
                             },
                             tiles::make<Tiles>, ConvScope::kSome};

}  // namespace petaflow
