// The name of the machine.
#pragma once

#include <string>

namespace petaflow {

/// As gethostname(2) gives it.
std::string host_name();

}  // namespace petaflow
