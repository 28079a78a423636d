#include "data/dataset.hpp"

#include <algorithm>
#include <cmath>

namespace petaflow {

std::int64_t Dataset::sample_elements() const {
  const auto [c, d, h, w] = sample_dims();
  return c * d * h * w;
}

std::vector<float> channel_maxima(const Dataset& data) {
  const auto channels = static_cast<std::size_t>(data.sample_dims()[0]);
  std::vector<float> pixels(static_cast<std::size_t>(data.sample_elements())), maxima(channels, 0.0F);
  for (std::int64_t i = 0; i < data.size(); ++i) {
    data.read(i, pixels);
    for (std::size_t p = 0; p < pixels.size(); ++p) {
      float& maximum = maxima[p % channels];
      maximum = std::max(maximum, std::abs(pixels[p]));
    }
  }
  return maxima;
}

void check_all(const Dataset& data) {
  std::vector<float> pixels(static_cast<std::size_t>(data.sample_elements()));
  for (std::int64_t i = 0; i < data.size(); ++i) data.read(i, pixels);
}

}  // namespace petaflow
