// Percentiles of unsorted values.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.hpp"

namespace petaflow::climate {

/// The value below which `percent` of the values lie, linear between neighbours (NumPy's default).
template <typename T>
T percentile(std::span<const T> values, double percent) {
  PETAFLOW_REQUIRE(!values.empty() && percent >= 0 && percent <= 100, "percentile {} of {} values", percent,
                   values.size());
  std::vector<T> sorted(values.begin(), values.end());
  const double place = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(place);
  const auto middle = sorted.begin() + below;
  std::nth_element(sorted.begin(), middle, sorted.end());
  if (middle + 1 == sorted.end()) return *middle;
  const T above = *std::min_element(middle + 1, sorted.end());
  return *middle + static_cast<T>(place - static_cast<double>(below)) * (above - *middle);
}

}  // namespace petaflow::climate
