// Which convolutions Winograd's transforms suit, in which tiles, and where weights are streamed.
#pragma once

#include <span>
#include <string>

#include "kernels/conv.hpp"

namespace petaflow::winograd {

/// As ConvImpl::why_not.
std::string why_not(Pass pass, std::span<const ConvDesc> tiles);
/// Whether these are one tile, the whole of a layer, whose weights are streamed (winograd_streamed.hpp).
bool is_streamed(Pass pass, std::span<const ConvDesc> tiles);
/// As ConvImpl::wishes.
TileWishes wishes(Pass pass, const ConvDesc& whole);

}  // namespace petaflow::winograd
