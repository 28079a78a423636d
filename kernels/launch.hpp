// The parallel loop of portable kernels, which may also be called from inside a parallel region; zeros and copies.
#pragma once

#include <cstdint>

#include "base/context.hpp"

namespace petaflow {

/// functor(item) for every item in [0, items), as a kernel on the context's instance.
template <class Functor>
void launch(const Context& context, const char* label, std::int64_t items, const Functor& functor) {
  static_assert(sizeof(Functor) <= 512);  // larger ones are launched in another, slower way by Kokkos on CUDA
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

using DeviceFloats = Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>;

/// to[0, count) = 0.
inline void zero(const Context& context, float* to, std::int64_t count) {
  Kokkos::deep_copy(context.space, DeviceFloats(to, static_cast<std::size_t>(count)), 0.0F);
}

/// to[0, count) = from[0, count).
inline void copy(const Context& context, const float* from, float* to, std::int64_t count) {
  using Source = Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>;
  const auto size = static_cast<std::size_t>(count);
  Kokkos::deep_copy(context.space, DeviceFloats(to, size), Source(from, size));
}

}  // namespace petaflow
