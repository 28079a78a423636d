// The undisturbed atmosphere of the synthetic weather: zonal means by latitude and season, a planet with continents and
// mountains, and large waves in pressure, temperature and moisture.
#pragma once

#include <cstdint>
#include <vector>

#include "climate/grid.hpp"

namespace petaflow::climate {

/// What features are added to and all variables are derived from; each (height, width).
struct Background {
  std::vector<float> height;       // of the ground, m
  std::vector<float> pressure;     // at sea level, Pa
  std::vector<float> temperature;  // of the air at the ground, K
  std::vector<float> t500, t200;   // K
  std::vector<float> saturation;   // of the column: precipitable water by what it could hold
  std::vector<float> rain;         // m/s
};

/// `season` is 1 in the northern midsummer and -1 in midwinter.  A function of all arguments alone; the planet is the
/// same for every seed.
Background make_background(const Grid& grid, std::uint64_t seed, std::int64_t series, double hours, double season);

/// Precipitable water of a saturated column over ground at so many K, kg/m2.
float saturated_water(float temperature);

}  // namespace petaflow::climate
