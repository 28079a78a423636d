// The parallel loops over boxes, on the host.
#pragma once

#include <string>

#include "base/context.hpp"

namespace petaflow {

using HostSpace = Kokkos::DefaultHostExecutionSpace;

/// f(slot) for slot in [0, slots), each on a thread of its own.
template <class F>
void parallel_slots(const Context&, const std::string& label, int slots, const F& f) {
  using Policy = Kokkos::RangePolicy<HostSpace, Kokkos::Schedule<Kokkos::Static>>;
  Kokkos::parallel_for(label, Policy(0, slots), [&](int slot) { f(slot); });
}

/// f(thread, i) for i in [0, count), handed out one by one; calls that run at the same time have different threads,
/// 0 <= thread < context.threads.
template <class F>
void parallel_boxes(const Context&, const std::string& label, std::size_t count, const F& f) {
  using Policy = Kokkos::RangePolicy<HostSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  const Kokkos::Experimental::UniqueToken<HostSpace> tokens;
  Kokkos::parallel_for(label, Policy(0, static_cast<std::int64_t>(count), Kokkos::ChunkSize(1)), [&](std::int64_t i) {
    const int thread = tokens.acquire();
    f(thread, static_cast<std::size_t>(i));
    tokens.release(thread);
  });
}

}  // namespace petaflow
