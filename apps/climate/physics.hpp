// Constants and short formulas of the atmosphere.
#pragma once

#include <cmath>

#include "climate/sphere.hpp"

namespace petaflow::climate {

inline constexpr double kEarthRate = 7.292e-5;  // 1/s
inline constexpr double kAirDensity = 1.15;     // kg/m3, of warm air near the sea
inline constexpr double kScaleHeight = 29.27;   // m/K: gas constant of dry air by gravity
inline constexpr double kMetresPerDegree = kRadians * 1000 * kEarthRadiusKm;

/// Coriolis parameter, 1/s.
inline double coriolis(double latitude) { return 2 * kEarthRate * std::sin(latitude * kRadians); }

/// Specific humidity of saturated air, kg/kg, at K and Pa (Bolton, Mon. Weather Rev. 108 (1980) 1046, equation 10).
inline float saturated_humidity(float temperature, float pressure) {
  const float vapour = 611.2F * std::exp(17.67F * (temperature - 273.15F) / (temperature - 29.65F));
  return 0.622F * vapour / (pressure - 0.378F * vapour);
}

}  // namespace petaflow::climate
