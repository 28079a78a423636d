// What cuDNN needs to know of a GPU that is not there.
#pragma once

#include <string>

#include "kernels/card.hpp"

namespace petaflow::cudnn {

/// What cuDNN calls the properties of a device, as make_plan() takes them.
std::string properties(const Card& card);

/// Engines that cuDNN compiles for a layer look for the driver's library: where there is none, one in its place, that
/// runs nothing, is loaded.
void need_driver();

}  // namespace petaflow::cudnn
