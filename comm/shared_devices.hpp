// Ranks that have the same GPU.
#pragma once

#include <string>

#include "comm/communicator.hpp"

namespace petaflow {

/// "ranks 0 and 1 have the same GPU (NVIDIA H200)" on all ranks; empty where each has its own, or where kernels run on
/// hosts.  Collective.
std::string shared_devices(Communicator& comm);

}  // namespace petaflow
