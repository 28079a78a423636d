#include "climate/background.hpp"

#include <algorithm>
#include <cmath>

#include "climate/sphere.hpp"
#include "climate/waves.hpp"

namespace petaflow::climate {
namespace {

/// Random fields of a series, which are independent, and of the planet.
enum class Wave : std::uint64_t { kPressure = 1, kTemperature, kUpper, kMoisture, kShortMoisture, kRain, kLand };

RandomStream wave_stream(std::uint64_t seed, std::int64_t series, Wave wave) {
  return random_stream(seed, RandomPurpose::kGenerate, static_cast<std::uint64_t>(series),
                       static_cast<std::uint64_t>(wave));
}

double bell(double x, double middle, double width) {
  const double z = (x - middle) / width;
  return std::exp(-z * z);
}

/// Zonal means at a latitude.
struct ZonalMean {
  double pressure, pressure_waves;  // Pa; size of the waves
  double temperature, t500, t200;   // K
  double saturation;
};

ZonalMean zonal_mean(double latitude, double season) {
  const double toward_summer = latitude * season > 0 ? std::abs(season) : -std::abs(season);  // 1: here it is summer
  const double distance = std::abs(latitude), shifted = std::abs(latitude - 7 * season);  // from the thermal equator
  const double sine = std::sin(std::min(shifted, 90.0) * kRadians), cold = sine * sine;
  const bool south = latitude < 0;
  ZonalMean mean{};
  mean.pressure = 101150 + 950 * bell(distance, 32, 12) - (south ? 2300 : 900) * bell(distance, 63, 13) -
                  250 * bell(latitude, 7 * season, 10);
  mean.pressure_waves = 130 + 650 * bell(distance, 55, 20);
  mean.temperature = 301.5 - 42 * cold + 7 * toward_summer * std::min(1.0, distance / 50) - (south ? 5 * cold : 0);
  mean.t500 = 269 - 31 * cold + 4 * toward_summer * std::min(1.0, distance / 50) - (south ? 2 * cold : 0);
  mean.t200 = 220.5 - 8 * bell(distance, 40, 16) - 8 * cold + 11 * toward_summer * cold - (south ? 4 * cold : 0);
  mean.saturation = 0.62 + 0.20 * bell(latitude, 7 * season, 10) - 0.16 * bell(distance, 27, 9);
  return mean;
}

}  // namespace

float saturated_water(float temperature) { return 62 * std::exp(0.058F * (temperature - 300)); }

Background make_background(const Grid& grid, std::uint64_t seed, std::int64_t series, double hours, double season) {
  const ZonalWaves zonal(grid, 48);
  const auto field = [&](Wave wave, const WaveShape& shape) {
    return random_field(grid, zonal, shape, wave_stream(seed, series, wave), hours);
  };
  const WaveShape large{.waves = 9, .width = 13, .slope = 0.7, .drift_m_s = 7};
  Background air;
  air.pressure = field(Wave::kPressure, large);
  air.temperature = field(Wave::kTemperature, large);
  air.t200 = field(Wave::kUpper, large);
  air.saturation = field(Wave::kMoisture, {.waves = 12, .width = 11, .slope = 0.5, .drift_m_s = 6});
  const std::vector<float> moist = field(Wave::kShortMoisture, {.waves = 40, .width = 5, .slope = 0.6, .drift_m_s = 6});
  air.rain = field(Wave::kRain, {.waves = 48, .width = 4, .slope = 0.3, .drift_m_s = 6});
  air.height = random_field(grid, zonal, {.waves = 12, .width = 14, .slope = 0.9, .drift_m_s = 0},
                            wave_stream(0, -1, Wave::kLand), 0);
  air.t500.resize(air.pressure.size());
  const auto width = static_cast<std::size_t>(grid.width());
  for (std::size_t y = 0; y < grid.latitude.size(); ++y) {
    const double latitude = grid.latitude[y];
    const ZonalMean mean = zonal_mean(latitude, season);
    const auto cap =
        static_cast<float>(latitude < 0 ? std::max(0.0, 2700 * bell(latitude, -90, 19) - 100) : 0);  // Antarctica
    const auto spread = static_cast<float>(1.6 + 2.9 * std::min(1.0, std::abs(latitude) / 45));      // K
    const auto pressure = static_cast<float>(mean.pressure), waves = static_cast<float>(mean.pressure_waves);
    const auto temperature = static_cast<float>(mean.temperature), t500 = static_cast<float>(mean.t500);
    const auto t200 = static_cast<float>(mean.t200), saturation = static_cast<float>(mean.saturation);
    for (std::size_t at = y * width; at < (y + 1) * width; ++at) {
      const float up = std::max(0.0F, air.height[at] - 0.45F);  // a third of the planet is land
      air.height[at] = (up > 0 ? 5.0F : 0.0F) + 700 * up * (0.3F + up) + cap;
      const float p = air.pressure[at], t = air.temperature[at];
      air.pressure[at] = pressure + waves * p;
      // Ridges are warm aloft: the equivalent barotropic part of a wave.
      air.temperature[at] = temperature + spread * t - 0.0045F * air.height[at] + (up > 0 ? 0.5F : 0.0F);
      air.t500[at] = t500 + 0.7F * spread * (0.6F * t + 0.8F * p) * 0.8F;
      air.t200[at] = t200 + 0.8F * spread * (0.7F * air.t200[at] - 0.5F * p);
      const float wet = 0.20F * air.saturation[at] + 0.11F * moist[at];
      air.saturation[at] = std::clamp(saturation * std::exp(wet), 0.08F, 1.05F);
      // Log-normal, more where the column is near saturation: most rain falls in few pixels.
      const float water = air.saturation[at] * saturated_water(air.temperature[at]);
      air.rain[at] = 5e-9F * std::exp(1.5F * air.rain[at] + 4 * (air.saturation[at] - 0.65F)) * (0.25F + water / 25);
    }
  }
  return air;
}

}  // namespace petaflow::climate
