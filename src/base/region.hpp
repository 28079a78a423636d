// A named region for Kokkos Tools; vendor calls are wrapped in one, because tools see only Kokkos kernels by
// themselves.
#pragma once

#include <string>

#include <Kokkos_Core.hpp>

#include "base/label.hpp"

namespace petaflow {

/// Opens a profiling region for the life of the object.  Names are constant: no rank, step or line number.
class Region {
 public:
  explicit Region(const std::string& name) { Kokkos::Profiling::pushRegion(name); }
  ~Region() { Kokkos::Profiling::popRegion(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
};

}  // namespace petaflow
