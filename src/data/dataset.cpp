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

SampleStorage::SampleStorage(const Dataset& data) {
  const std::vector<TargetSpec> targets = data.targets();
  storage_.emplace_back(data.sample_bytes());
  bytes_.input = storage_.back();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    storage_.emplace_back(targets[i].bytes());
    bytes_.targets.at(i) = storage_.back();
  }
}

std::vector<float> channel_maxima(const Dataset& data, SampleRange range) {
  const auto channels = static_cast<std::size_t>(data.sample_dims()[0]);
  std::vector<float> maxima(channels, 0.0F);
  const SampleStorage sample(data);
  const auto pixels = sample.input<float>();
  for (std::int64_t i = range.first; i < range.last; ++i) {
    data.read(i, sample.bytes());
    for (std::size_t p = 0; p < pixels.size(); ++p) {
      float& maximum = maxima[p % channels];
      maximum = std::max(maximum, std::abs(pixels[p]));
    }
  }
  return maxima;
}

void check_samples(const Dataset& data, SampleRange range) {
  const SampleStorage sample(data);
  for (std::int64_t i = range.first; i < range.last; ++i) data.read(i, sample.bytes());
}

}  // namespace petaflow
