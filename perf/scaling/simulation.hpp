// A run on virtual ranks: how long its steps take, and why.
#pragma once

#include <cstdint>

#include "scaling/inputs.hpp"
#include "scaling/referee.hpp"

namespace petaflow::scaling {

struct Outcome {
  double step_s = 0;         // from one step to the next, of a group
  double compute_s = 0;      // of a rank in a step, mean
  double slowest_s = 0;      // of the slowest rank of a step, mean over steps
  double updates_per_s = 0;  // of all groups
  std::int64_t messages = 0;
  double virtual_s = 0, real_s = 0;
  double resident_mb = 0;  // of this process at most, so far
};

/// Steps from `skip` on count.
Outcome simulate(int ranks, const Machine& machine, const Workload& workload, const Scheme& scheme,
                 std::uint64_t seed = 1, std::int64_t skip = 1);

/// Seconds of a case of referee.hpp.
double simulate_case(int ranks, const Machine& machine, const RefereeCase& given);

}  // namespace petaflow::scaling
