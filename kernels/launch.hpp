// A parallel loop of a portable kernel that may also be called from inside a parallel region.
#pragma once

#include <cstdint>

#include "base/context.hpp"

namespace petaflow {

inline constexpr bool kOnHost = Kokkos::SpaceAccessibility<Kokkos::HostSpace, MemorySpace>::accessible;

/// functor(item) for every item in [0, items), as a kernel on the context's instance.
template <class Functor>
void launch(const Context& context, const char* label, std::int64_t items, const Functor& functor) {
  using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(label, Range(context.space, 0, items), functor);
}

/// The same; threads 1 on the host: a loop in the calling thread, which may itself be one of a parallel region.
template <class Functor>
void launch(const Context& context, int threads, const char* label, std::int64_t items, const Functor& functor) {
  if constexpr (kOnHost) {
    if (threads == 1) {
      for (std::int64_t item = 0; item < items; ++item) functor(item);
      return;
    }
  }
  launch(context, label, items, functor);
}

}  // namespace petaflow
