// The plans of this process, which works on one device.
#pragma once

#include <string>

#include "kernels/card.hpp"
#include "kernels/conv.hpp"
#include "kernels/plan_cudnn.hpp"

namespace petaflow::cudnn {

/// What cuDNN calls the properties of a device, as make_plan() takes them.
std::string properties(const Card& card);

/// Engines that cuDNN compiles for a layer look for the driver's library: where there is none, one in its place, that
/// runs nothing, is loaded.
void need_driver();

/// The plan of a pass: for the device of this process, or what plan_for() named.  The same for the same call.
const Plan& plan_of(Pass pass, const ConvDesc& desc);

/// What `cudnn` runs for a pass.
struct FittedPlan {
  const Plan& plan;  // of copies of operands where no engine takes them as they are
  std::string name;  // "cudnn eng11_k2=3, copy of x"
};
FittedPlan fitted_plan_of(Pass pass, const ConvDesc& desc);

/// Plans are made for this GPU, which need not be there, from now on; none may have been made before.
void plan_for(const Card& card);

}  // namespace petaflow::cudnn
