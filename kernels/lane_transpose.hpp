// Transposition of squares of kLanes x kLanes numbers in registers, for kernels of the host.
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/lanes.hpp"

namespace petaflow::lanes::inline PETAFLOW_LANES {

/// Exchanges blocks of kDistance lanes of two rows: those of a that lie behind with those of b that lie before.
template <int kDistance, int... kLane>
KOKKOS_FORCEINLINE_FUNCTION void exchange(Floats& a, Floats& b, std::integer_sequence<int, kLane...>) {
  const Floats first =
      __builtin_shufflevector(a, b, ((kLane & kDistance) == 0 ? kLane : kLanes + kLane - kDistance)...);
  b = __builtin_shufflevector(a, b, ((kLane & kDistance) == 0 ? kLane + kDistance : kLanes + kLane)...);
  a = first;
}

/// square[i][j] <-> square[j][i].
KOKKOS_FORCEINLINE_FUNCTION void transpose(Floats (&square)[kLanes]) {
  const auto exchange_all = [&](auto distance) {
    unrolled<kLanes>([&](auto row) {
      if constexpr ((row & distance) == 0 && distance < kLanes)
        exchange<distance>(square[row], square[row + distance], std::make_integer_sequence<int, kLanes>{});
    });
  };
  exchange_all(std::integral_constant<int, 1>{});
  exchange_all(std::integral_constant<int, 2>{});
  exchange_all(std::integral_constant<int, 4>{});
  exchange_all(std::integral_constant<int, 8>{});
}

}  // namespace petaflow::lanes::inline PETAFLOW_LANES
