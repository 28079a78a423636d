#include "climate/waves.hpp"

#include <algorithm>
#include <cmath>
#include <complex>

#include "base/error.hpp"
#include "climate/sphere.hpp"

namespace petaflow::climate {

ZonalWaves::ZonalWaves(const Grid& grid, int waves)
    : waves_(waves),
      width_(grid.width()),
      cosine_(static_cast<std::size_t>((waves + 1) * width_)),
      sine_(cosine_.size()) {
  for (int k = 0; k <= waves; ++k) {
    for (std::int64_t x = 0; x < width_; ++x) {
      const double angle = k * grid.longitude[static_cast<std::size_t>(x)] * kRadians;
      const auto at = static_cast<std::size_t>(k * width_ + x);
      cosine_[at] = static_cast<float>(std::cos(angle));
      sine_[at] = static_cast<float>(std::sin(angle));
    }
  }
}

std::vector<float> random_field(const Grid& grid, const ZonalWaves& zonal, const WaveShape& shape,
                                const RandomStream& stream, double hours) {
  PETAFLOW_REQUIRE(shape.waves <= zonal.waves(), "{} waves of {}", shape.waves, zonal.waves());
  const auto height = static_cast<std::size_t>(grid.height()), width = static_cast<std::size_t>(grid.width());
  // Amplitudes on nodes of latitude, half a width apart and beyond the poles; between them bells of one width.
  const double spacing = shape.width / 2;
  const int nodes = 2 * static_cast<int>(std::ceil(90 / spacing + 4)) + 1, waves = shape.waves + 1;
  std::vector<std::complex<double>> amplitude(static_cast<std::size_t>(nodes * waves));
  for (int node = 0; node < nodes; ++node) {
    RandomSequence random(stream, static_cast<std::uint64_t>(node));
    for (int k = 0; k < waves; ++k) {
      const double a = random.normal(), b = random.normal();
      const double drift = shape.drift_m_s * (0.5 + random.uniform());
      const double turn = k * drift * 3600 * hours / (1000 * kEarthRadiusKm);  // at the equator's speed everywhere
      const double wave = std::pow(1.0 + k, -shape.slope / 2);
      amplitude[static_cast<std::size_t>(node) * static_cast<std::size_t>(waves) + static_cast<std::size_t>(k)] =
          std::complex(a, b) * std::polar(wave, -turn);
    }
  }
  std::vector<float> field(height * width);
  for (std::size_t y = 0; y < height; ++y) {
    const double latitude = grid.latitude[y], cosine = std::max(std::cos(latitude * kRadians), 1e-6);
    double variance = 0;
    float* const row = field.data() + y * width;
    for (int k = 0; k < waves; ++k) {
      const double limit = k / (1.3 * shape.waves * cosine);  // no short waves on the short circles near the poles
      const double damping = std::exp(-limit * limit);
      if (damping < 1e-3) break;
      std::complex<double> sum = 0;
      double weight = 0;
      for (int node = 0; node < nodes; ++node) {
        const double z = (latitude - (node - nodes / 2) * spacing) / shape.width;
        if (std::abs(z) > 2) continue;
        const double bell = std::exp(-2 * z * z);
        sum +=
            bell *
            amplitude[static_cast<std::size_t>(node) * static_cast<std::size_t>(waves) + static_cast<std::size_t>(k)];
        weight += bell * bell;
      }
      variance += damping * damping * weight * std::pow(1.0 + k, -shape.slope);
      const auto real = static_cast<float>(damping * sum.real()), imaginary = static_cast<float>(damping * sum.imag());
      const float *const c = zonal.cosine(k), *const s = zonal.sine(k);
      for (std::size_t x = 0; x < width; ++x) row[x] += real * c[x] - imaginary * s[x];
    }
    const auto scale = static_cast<float>(1 / std::sqrt(variance));
    for (std::size_t x = 0; x < width; ++x) row[x] *= scale;
  }
  return field;
}

}  // namespace petaflow::climate
