// Winograd's convolutions of many channels on few patches: weights and their gradients are transformed a piece at a
// time and never stand in memory as a whole, where they would take four times the room of the weights.
#pragma once

#include <memory>

#include "kernels/conv.hpp"

namespace petaflow::winograd {

/// The pass on the whole of a layer without taps in depth.  Weights, and their gradient, are in PyTorch's order:
/// packed_bytes() and gradient_elements() are 0.
std::unique_ptr<ConvKernel> make_streamed(Pass pass, const ConvDesc& whole);

}  // namespace petaflow::winograd
