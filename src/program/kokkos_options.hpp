// Options of Kokkos on a command line.
#pragma once

#include <string>
#include <vector>

namespace petaflow {

/// Throws a user error, with the nearest name, where one of these arguments (--kokkos-...) is none that Kokkos has: it
/// passes over them itself.
void check_kokkos_arguments(const std::vector<std::string>& given);

}  // namespace petaflow
