#include "data/dataset.hpp"

#include <algorithm>
#include <cmath>

namespace petaflow {

SampleRange share_of_samples(std::int64_t samples, int rank, int ranks) {
  return {samples * rank / ranks, samples * (rank + 1) / ranks};
}

std::int64_t Dataset::sample_elements() const {
  const auto [c, d, h, w] = sample_dims();
  return c * d * h * w;
}

std::vector<float> channel_maxima(const Dataset& data, SampleRange range) {
  const auto channels = static_cast<std::size_t>(data.sample_dims()[0]);
  std::vector<float> pixels(static_cast<std::size_t>(data.sample_elements())), maxima(channels, 0.0F);
  std::vector<float> targets(static_cast<std::size_t>(data.targets()));
  for (std::int64_t i = range.first; i < range.last; ++i) {
    data.read(i, std::as_writable_bytes(std::span(pixels)), targets);
    for (std::size_t p = 0; p < pixels.size(); ++p) {
      float& maximum = maxima[p % channels];
      maximum = std::max(maximum, std::abs(pixels[p]));
    }
  }
  return maxima;
}

void check_samples(const Dataset& data, SampleRange range) {
  std::vector<std::byte> sample(data.sample_bytes());
  std::vector<float> targets(static_cast<std::size_t>(data.targets()));
  for (std::int64_t i = range.first; i < range.last; ++i) data.read(i, sample, targets);
}

}  // namespace petaflow
