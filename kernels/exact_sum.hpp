// Sums of gradients: some are added in f32, and these sums in double, since a sum in f32 over millions of numbers loses
// two digits.
#pragma once

#include <algorithm>
#include <cstddef>

#include <Kokkos_Macros.hpp>

namespace petaflow {

/// How many gradients of so many elements are added in f32: so many that moving their sum takes little of the time that
/// they take themselves.
inline std::size_t sums_in_f32(std::size_t elements) { return std::max<std::size_t>(1, elements / 16384); }

/// to += from, which becomes 0.
KOKKOS_INLINE_FUNCTION void move_sum(float* from, double* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] += static_cast<double>(from[i]);
    from[i] = 0;
  }
}

/// to = from, rounded.
inline void round_sum(const double* from, float* to, std::size_t count) {
  std::transform(from, from + count, to, [](double sum) { return static_cast<float>(sum); });
}

}  // namespace petaflow
