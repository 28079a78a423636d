// Backward weights in bf16 on AMX tiles: conv_shifts.hpp with the instructions of amx.hpp.
#include "kernels/amx.hpp"
#include "kernels/conv_shifts.hpp"

namespace petaflow {
namespace {

std::string why_not_amx(Pass pass, std::span<const ConvDesc> tiles) {
  return may_use_amx() ? shifts::why_not(pass, tiles) : "no AMX tiles here";
}

}  // namespace

extern const ConvImpl kConvAmx;
const ConvImpl kConvAmx = {"amx", why_not_amx, shifts::make<shifts::AmxProducts<AmxTiles>>, ConvScope::kSome};

}  // namespace petaflow
