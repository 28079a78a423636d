// The gradient-noise scale: how many samples a batch may have before its gradient is known better than it need be.
// Source: McCandlish et al., "An Empirical Model of Large-Batch Training" (arXiv:1812.06162), section 2.2 and
// appendix A.1.
#pragma once

#include <cstdint>
#include <optional>

namespace petaflow {

/// What one step says of the gradient of a sample, without bias: each is above or below the truth by much, and may be
/// negative.
struct NoiseEstimate {
  double gradient = 0;    // |G|^2 of its mean
  double covariance = 0;  // tr(S), the sum of the variances of its elements
};

/// A batch has parts, each with a gradient of its own.  A mean over n samples has |G|^2 + tr(S) / n as the expectation
/// of its squared norm, so that two sizes give both unknowns; the small one here is samples / parts, parts weighing as
/// many samples as they have.
/// @param of_parts  sum over parts of |g|^2 / n: of n samples, whose gradients add up to g x samples
/// @param of_batch  |sum over parts of g|^2
/// @param parts     with a sample; none of one part
std::optional<NoiseEstimate> estimate_noise(double of_parts, double of_batch, std::int64_t samples, std::int64_t parts);

/// Moving averages of numerator and denominator, over about 1 / (1 - kDecay) steps: the mean of their ratio has a bias.
/// Both begin at 0, which does not change the ratio.
struct NoiseScale {
  static constexpr double kDecay = 0.99;
  NoiseEstimate mean;

  void add(const NoiseEstimate& estimate);
  /// B_simple = tr(S) / |G|^2, samples; none while the average of |G|^2 is not positive.
  std::optional<double> value() const;
};

}  // namespace petaflow
