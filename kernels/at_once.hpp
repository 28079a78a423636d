// Some elements as a thread of a GPU reads and writes them at once, where they begin at a multiple of their size: one
// instruction of up to 16 bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include <Kokkos_Macros.hpp>

namespace petaflow::lanes {

template <int kCount, class E>
struct alignas(kCount * sizeof(E)) AtOnce {
  E element[kCount];
};

template <int kCount, class E>
KOKKOS_INLINE_FUNCTION bool may_be_at_once([[maybe_unused]] const E* at) {
#ifdef __CUDA_ARCH__
  return reinterpret_cast<std::uintptr_t>(at) % sizeof(AtOnce<kCount, E>) == 0;
#else
  return false;
#endif
}

/// to[i] = from[i] for all of them.
template <int kCount, class E, class V>
KOKKOS_INLINE_FUNCTION void load_at_once(const E* from, V& to) {
  using Number = std::decay_t<decltype(to[0])>;
  if (may_be_at_once<kCount>(from)) {
    const auto all = *reinterpret_cast<const AtOnce<kCount, E>*>(from);
    for (int i = 0; i < kCount; ++i) to[i] = static_cast<Number>(all.element[i]);
  } else {
    for (int i = 0; i < kCount; ++i) to[i] = static_cast<Number>(from[i]);
  }
}

/// to[i] = value[i] for the first `count`, one by one where these are not all.
template <int kCount, class E, class V>
KOKKOS_INLINE_FUNCTION void store_at_once(E* to, int count, const V& value) {
  if (count == kCount && may_be_at_once<kCount>(to)) {
    AtOnce<kCount, E> all;
    for (int i = 0; i < kCount; ++i) all.element[i] = static_cast<E>(value[i]);
    *reinterpret_cast<AtOnce<kCount, E>*>(to) = all;
  } else {
    // By constants, as an index that the compiler does not know keeps `value` in a thread's memory, not in registers.
    for (int i = 0; i < kCount; ++i) {
      if (i < count) to[i] = static_cast<E>(value[i]);
    }
  }
}

}  // namespace petaflow::lanes
