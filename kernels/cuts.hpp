// How sums over pixels or elements are cut into parts, of which their order follows.
#pragma once

#ifdef PETAFLOW_GUARDED
#include <cstdlib>
#include <string_view>
#endif

#include "base/context.hpp"

namespace petaflow {

/// Whether sums are cut for the threads of a processor and for its caches, or else for a GPU's thousands of threads.
/// Guarded builds do the latter, unless PETAFLOW_HOST_CUTS=1 asks for the sums of a processor: what they train has the
/// bits of another build then (tests/same_bits.sh).
#ifdef PETAFLOW_GUARDED
inline bool cuts_for_host() {
  static const bool asked = [] {
    const char* const value = std::getenv("PETAFLOW_HOST_CUTS");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return asked;
}
#else
KOKKOS_INLINE_FUNCTION constexpr bool cuts_for_host() { return kOnHost; }
#endif

}  // namespace petaflow
