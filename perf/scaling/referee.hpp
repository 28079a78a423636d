// Runs that are timed on virtual ranks and on SimGrid's, for comparison.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.hpp"
#include "scaling/worker.hpp"

namespace petaflow::scaling {

struct RefereeCase {
  std::string what = "halving";  // a reduction, or "servers": steps of groups with two servers
  std::int64_t elements = 1 << 20;
  int groups = 4;
};

/// The scheme of "servers".
Scheme scheme_of(const RefereeCase& given);

/// Seconds of a sum over ranks of a vector without content, or of a step; the same on all ranks.  Collective.
double time_of(Communicator& all, const RefereeCase& given);

}  // namespace petaflow::scaling
