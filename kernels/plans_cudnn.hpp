// The plans of this process, which works on one device.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/card_cudnn.hpp"
#include "kernels/conv.hpp"
#include "kernels/plan_cudnn.hpp"

namespace petaflow::cudnn {

/// The plan of a pass: for the device of this process, or what plan_for() named.  The same for the same call.
/// @param place  as in make_plan()
const Plan& plan_of(Pass pass, const ConvDesc& desc, std::int64_t place = 0);

/// What `cudnn` runs for a pass.
struct FittedPlan {
  const Plan& plan;  // of copies of operands where no engine takes them as they are
  std::string name;  // "cudnn eng11_k2=3, copy of x"
};
/// @param place  as in make_plan()
FittedPlan fitted_plan_of(Pass pass, const ConvDesc& desc, std::int64_t place = 0);

/// Plans are made for this GPU, which need not be there, from now on; none may have been made before.
void plan_for(const Card& card);

}  // namespace petaflow::cudnn
