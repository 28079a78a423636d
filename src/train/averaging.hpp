// Means over groups of ranks that train by themselves in between.
// Source: Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019, algorithm 1.
#pragma once

#include <cstdint>

#include "comm/communicator.hpp"

namespace petaflow {

/// values = mean over ranks, added in the order of tree_plan() and multiplied by 1 / ranks: the same bits everywhere.
/// @param values  (count) in MemorySpace
void average(Communicator& comm, float* values, std::int64_t count);

}  // namespace petaflow
