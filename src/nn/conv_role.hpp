// Which pass of its convolution a stage runs.
#pragma once

#include <array>

#include "kernels/conv.hpp"

namespace petaflow {

/// A transposed convolution has the convolution whose gradient of the input it is: v lies where that one reads, and the
/// stage's x where it writes.  With v in place of the result, before the epilogue:
///
///   pass of the stage   convolution              transposed
///   forward             v = forward(x)           v = backward_data(x)
///   backward data       dx = backward_data(dv)   dx = forward(dv)
///   backward weights    dw(x, dv)                dw(dv, x)
enum class ConvRole { kConvolution, kTransposed };

constexpr Pass pass_of(ConvRole role, Pass pass) {
  constexpr std::array kExchanged = {Pass::kBackwardData, Pass::kForward, Pass::kBackwardWeights};
  return role == ConvRole::kConvolution ? pass : kExchanged[static_cast<std::size_t>(pass)];
}

}  // namespace petaflow
