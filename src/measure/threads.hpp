// How many threads a rank takes.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace petaflow {

/// Arguments for Kokkos::initialize: the user's own (--kokkos-...), and the number of threads where several ranks share
/// a machine and neither these nor OMP_NUM_THREADS say it: the cores are divided among them.
std::vector<std::string> kokkos_arguments(const Communicator& comm, const std::vector<std::string>& given);

}  // namespace petaflow
