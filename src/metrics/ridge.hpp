// Ridge regression: the linear estimate that a network has to beat.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace petaflow {

struct RidgeOptions {
  /// Candidates, in units of the variance of a standardised feature: 1e-8 to 1e2 in half decades by default.
  std::vector<double> penalties = default_penalties();

  static std::vector<double> default_penalties();
};

/// y = c + sum over features of b (x - mean) / deviation, for each of T targets.
struct RidgeModel {
  std::vector<double> mean, deviation;         // (F), of the features of the fit; deviation 1 where constant
  std::vector<double> coefficient, intercept;  // (T, F), (T)
  std::vector<double> penalty;                 // (T), chosen

  /// @param features (N, F)
  /// @return (N, T)
  std::vector<float> predict(std::span<const double> features) const;
};

/// Minimises sum over samples of (y - estimate)^2 / N + penalty |b|^2 (Hoerl & Kennard 1970), for each target with the
/// penalty that has the least squared error in fivefold cross-validation over groups: group i in increasing order is
/// left out in fold i mod 5, as samples of one simulation are not independent.
/// @param features (N, F)
/// @param targets  (N, T)
/// @param group    (N)
/// Throws a user error where a feature or target is not finite, all samples are of one group, or the equations are
/// singular.
RidgeModel fit_ridge(std::span<const double> features, std::span<const float> targets,
                     std::span<const std::int64_t> group, const RidgeOptions& options = {});

}  // namespace petaflow
