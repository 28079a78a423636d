// How Winograd's transforms enlarge roundings of what they give: from their matrices, made here from the points alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace petaflow::testing_support {

/// Of one direction; in two directions the square.
struct WinogradGrowth {
  double mean = 0, largest = 0;  // over the places of a tile
};

/// The squares of a sum of transformed products over those of the taps, numbers being random: for F(7 - taps, taps) in
/// the points 0, +-2/3, +-3/2 and infinity, sum_j A_ij^2 |G_j|^2 |B_j|^2 / taps at output i, and for the gradient of
/// weight k sum_j G_jk^2 |A_j|^2 |B_j|^2 / outputs.  Three or four taps: products of five are f32.
inline WinogradGrowth winograd_growth(std::size_t taps, bool of_weights = false) {
  constexpr std::array<double, 5> kPoints = {0, 2.0 / 3, -2.0 / 3, 1.5, -1.5};
  const std::size_t outputs = 7 - taps;
  std::vector<double> growth(of_weights ? taps : outputs, 0.0);
  for (std::size_t j = 0; j <= kPoints.size(); ++j) {
    const bool infinite = j == kPoints.size();
    std::vector<double> polynomial = {1}, a(outputs, 0.0), g(taps, 0.0);  // the former from the constant upward
    double divisor = 1;
    for (std::size_t l = 0; l < kPoints.size(); ++l) {
      if (l == j) continue;
      if (!infinite) divisor *= kPoints[j] - kPoints[l];
      polynomial.push_back(0);
      for (std::size_t k = polynomial.size(); k-- > 0;)
        polynomial[k] = (k > 0 ? polynomial[k - 1] : 0) - kPoints[l] * polynomial[k];
    }
    const auto powers = [&](std::vector<double>& row, double value) {
      for (double& entry : row) entry = value, value *= infinite ? 0 : kPoints[j];
      if (infinite) row.front() = 0, row.back() = 1;
    };
    powers(a, 1), powers(g, 1 / divisor);
    const auto squares = [](const std::vector<double>& row) {
      double sum = 0;
      for (const double entry : row) sum += entry * entry;
      return sum;
    };
    const std::vector<double>&to = of_weights ? g : a, &from = of_weights ? a : g;
    for (std::size_t i = 0; i < growth.size(); ++i) {
      growth[i] += to[i] * to[i] * squares(from) * squares(polynomial) / static_cast<double>(from.size());
    }
  }
  double sum = 0;
  for (const double value : growth) sum += value;
  return {sum / static_cast<double>(growth.size()), std::ranges::max(growth)};
}

}  // namespace petaflow::testing_support
