// Which reduction sums a vector of a size: by name, by a rule, or by time.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.hpp"
#include "comm/reduction.hpp"

namespace petaflow {

/// The reduction of that name; "auto": by a rule for the size of the vector; "tune": the fastest of those that accept
/// it, which is timed.  Throws a user error naming comm.reduction where one cannot be used.  With "tune" collective.
const ReductionImpl& choose_reduction(const std::string& name, Communicator& comm, Wire wire, std::int64_t elements);

/// The reduction, ready to sum such vectors.
/// @param tag  as in Reduction
Reduction<float> make_reduction(const ReductionImpl& impl, Communicator& comm, Tag tag, Wire wire,
                                std::int64_t elements);

/// Median seconds of a sum, of the slowest rank.  Collective.
/// @param seconds  to spend at least, in three sums or more
double seconds_of_sum(const ReductionImpl& impl, Communicator& comm, Wire wire, std::int64_t elements, double seconds);

}  // namespace petaflow
