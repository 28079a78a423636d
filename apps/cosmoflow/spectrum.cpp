#include "cosmoflow/spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace petaflow::cosmoflow {

SpectrumMeter::SpectrumMeter(int n) : shape_(n), transform_(n, MeshThreads::kCalling) {}

std::vector<SpectrumBin> SpectrumMeter::measure(MeshField& field, double box) const {
  transform_.forward(field);
  const int n = shape_.n;
  std::vector<SpectrumBin> bins(static_cast<std::size_t>(n / 2 + 1));  // bin 0 is left out at the end
  for (int x = 0; x < n; ++x) {
    const int mx = shape_.frequency(x);
    for (int y = 0; y < n; ++y) {
      const int my = shape_.frequency(y), base = mx * mx + my * my;
      const std::complex<float>* const modes = field.modes(x, y);
      for (int z = 0; z < shape_.modes(); ++z) {
        const double m = std::sqrt(base + z * z);
        const auto bin = static_cast<std::size_t>(std::lround(m));
        if (bin >= bins.size()) continue;
        const int count = z == 0 || 2 * z == n ? 1 : 2;  // -k is not stored
        bins[bin].k += count * m;
        bins[bin].power += count * static_cast<double>(std::norm(modes[z]));
        bins[bin].modes += count;
      }
    }
  }
  bins.erase(bins.begin());
  const double cells = std::pow(n, 3);
  for (SpectrumBin& bin : bins) {
    const auto modes = static_cast<double>(bin.modes);
    bin.k *= 2 * std::numbers::pi / box / modes;
    bin.power *= std::pow(box, 3) / (cells * cells) / modes;
  }
  return bins;
}

std::vector<SpectrumBin> SpectrumMeter::measure(std::span<const float> values, double box) const {
  const auto n = static_cast<std::size_t>(shape_.n);
  PETAFLOW_REQUIRE(values.size() == n * n * n, "{} numbers for a mesh of {}^3", values.size(), n);
  MeshField field(shape_);
  for (int x = 0; x < shape_.n; ++x) {
    for (int y = 0; y < shape_.n; ++y) {
      const std::size_t at = (static_cast<std::size_t>(x) * n + static_cast<std::size_t>(y)) * n;
      std::copy_n(values.data() + at, n, field.real(x, y));
    }
  }
  return measure(field, box);
}

std::vector<double> SpectrumMeter::features(std::span<const std::int16_t> counts) const {
  const auto n = static_cast<std::size_t>(shape_.n), voxels = n * n * n, channels = counts.size() / voxels;
  PETAFLOW_REQUIRE(channels > 0 && counts.size() == channels * voxels, "{} counts in cubes of {}^3", counts.size(), n);
  constexpr double kLeast = 1e-12;  // an even cube has features too
  std::vector<double> features;
  MeshField field(shape_);
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int x = 0; x < shape_.n; ++x) {
      for (int y = 0; y < shape_.n; ++y) {
        const std::size_t row = (static_cast<std::size_t>(x) * n + static_cast<std::size_t>(y)) * n;
        float* const out = field.real(x, y);
        for (std::size_t z = 0; z < n; ++z) {
          const std::int16_t count = counts[(row + z) * channels + c];
          sum += count;
          out[z] = std::log1p(static_cast<float>(count));
        }
      }
    }
    features.push_back(sum / static_cast<double>(voxels));
    for (const SpectrumBin& bin : measure(field, static_cast<double>(n))) {
      features.push_back(std::log(std::max(bin.power, kLeast)));
    }
  }
  return features;
}

std::vector<double> histogram_features(std::span<const std::int16_t> counts, std::int64_t channels, int bins) {
  PETAFLOW_REQUIRE(bins > 0 && channels > 0 && counts.size() % static_cast<std::size_t>(channels) == 0,
                   "{} counts of {} channels", counts.size(), channels);
  const auto step = static_cast<std::size_t>(channels), voxels = counts.size() / step;
  std::vector<double> fractions(step * static_cast<std::size_t>(bins), 0.0);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const int bin = std::clamp<int>(counts[i], 0, bins - 1);
    fractions[i % step * static_cast<std::size_t>(bins) + static_cast<std::size_t>(bin)] += 1;
  }
  for (double& fraction : fractions) fraction /= static_cast<double>(voxels);
  return fractions;
}

}  // namespace petaflow::cosmoflow
