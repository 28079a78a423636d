// How work is cut into blocks that accumulate in registers and whose sizes the compiler knows.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/lanes.hpp"

namespace petaflow {

/// a / b, rounded up, of numbers that are not negative.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Rows of a block that is kVectors registers wide.
template <int kVectors>
inline constexpr int kBlockRows = lanes::kPoints * lanes::kVectors / kVectors;

/// f(integral_constant<int, n>) for the run-time n in [1, kMost].
template <int kMost, class F>
KOKKOS_FORCEINLINE_FUNCTION void with_constant(std::int64_t n, const F& f) {
  if constexpr (kMost > 1) {
    if (n < kMost) return with_constant<kMost - 1>(n, f);
  }
  f(std::integral_constant<int, kMost>{});
}

/// f(begin, size) for pieces of [0, count) of nearly equal size, up to `most`.
template <class F>
KOKKOS_FORCEINLINE_FUNCTION void in_pieces(std::int64_t count, std::int64_t most, const F& f) {
  const std::int64_t pieces = ceil_div(count, most);
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t begin = count * i / pieces;
    f(begin, count * (i + 1) / pieces - begin);
  }
}

}  // namespace petaflow
