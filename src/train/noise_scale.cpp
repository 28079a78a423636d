#include "train/noise_scale.hpp"

namespace petaflow {

std::optional<NoiseEstimate> estimate_noise(double of_parts, double of_batch, std::int64_t samples,
                                            std::int64_t parts) {
  if (parts < 2) return std::nullopt;
  const auto n = static_cast<double>(samples), p = static_cast<double>(parts);
  const double small = n * of_parts;  // mean of the squared norms of means over n / p samples
  return NoiseEstimate{(p * of_batch - small) / (p - 1), n * (small - of_batch) / (p - 1)};
}

void NoiseScale::add(const NoiseEstimate& estimate) {
  mean.gradient += (1 - kDecay) * (estimate.gradient - mean.gradient);
  mean.covariance += (1 - kDecay) * (estimate.covariance - mean.covariance);
}

std::optional<double> NoiseScale::value() const {
  if (!(mean.gradient > 0)) return std::nullopt;
  return mean.covariance / mean.gradient;
}

}  // namespace petaflow
