// Sums of squares of f32 in f64, in an order that follows from the elements alone.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/context.hpp"
#include "kernels/cuts.hpp"
#include "kernels/launch.hpp"

namespace petaflow {

/// Elements that a team sums together.
inline constexpr std::int64_t kSquaresPart = 16384;
/// Threads of its team: the order of a sum follows from their number, so it is the same everywhere.
inline constexpr int kSquaresTeam = std::is_same_v<ExecutionSpace, Kokkos::DefaultHostExecutionSpace> ? 1 : 128;

KOKKOS_INLINE_FUNCTION double sum_of_squares(const Team& team, const float* values, std::int64_t begin,
                                             std::int64_t end) {
  double sum = 0;
  if (cuts_for_host()) {
    constexpr int kChains = 16;  // additions that do not wait for each other
    double sums[kChains] = {};
    std::int64_t i = begin;
    for (; i + kChains <= end; i += kChains) {
      for (int chain = 0; chain < kChains; ++chain) {
        const auto value = static_cast<double>(values[i + chain]);
        sums[chain] += value * value;
      }
    }
    for (; i < end; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    for (const double part : sums) sum += part;
  } else {
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(team, begin, end),
        [&](const std::int64_t i, double& total) {
          total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
        },
        sum);
  }
  return sum;
}

}  // namespace petaflow
