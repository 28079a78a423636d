// What Kokkos says where memory is missing.
#pragma once

#include <exception>
#include <string>

namespace petaflow {

/// "out of memory: <label> takes <size>" of a failed allocation, by whatever exception it is told; else empty.
std::string out_of_memory_text(const std::exception& exception);

}  // namespace petaflow
