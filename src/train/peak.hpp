// What the processor could do at best, as a yardstick for the rates of a run.
#pragma once

#include "base/context.hpp"

namespace petaflow {

/// f32 GFLOP/s (2 per multiply-add) of independent fused multiply-adds in registers, all threads of the host, best of
/// several short runs: about 50 ms.
double measure_peak_gflops(const Context& context);

}  // namespace petaflow
