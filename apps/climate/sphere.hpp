// Places and derivatives on the sphere.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "climate/grid.hpp"

namespace petaflow::climate {

inline constexpr double kRadians = std::numbers::pi / 180;

/// Degrees from west to east between two longitudes, in [-180, 180].
inline double turn_degrees(double from, double to) { return std::remainder(to - from, 360.0); }

/// The place `degrees` of a great circle away towards an azimuth (0: north, 90: east), all in degrees.
struct Place {
  double latitude = 0, longitude = 0;
};
Place travel(const Place& from, double azimuth, double degrees);

/// The pixel (y * width + x) whose middle is nearest in each coordinate.
std::int64_t nearest_pixel(const Grid& grid, const Place& place);

/// f(y, x) for pixels whose middles are in the box of +-half degrees, at most 180, in rows from the south and columns
/// from the west (across the seam: x begins again at 0).
template <typename F>
void for_each_in_box(const Grid& grid, const Place& middle, double half, const F& f) {
  const std::int64_t width = grid.width();
  const auto row = [&](auto at) { return at - grid.latitude.begin(); };
  const auto first = row(std::lower_bound(grid.latitude.begin(), grid.latitude.end(), middle.latitude - half));
  const auto last = row(std::upper_bound(grid.latitude.begin(), grid.latitude.end(), middle.latitude + half));
  const double step = 360.0 / static_cast<double>(width);
  const auto west = static_cast<std::int64_t>(std::ceil((middle.longitude - half) / step));
  const auto east = std::min(static_cast<std::int64_t>(std::floor((middle.longitude + half) / step)), west + width - 1);
  for (std::int64_t y = first; y < last; ++y) {
    for (std::int64_t x = west; x <= east; ++x) f(y, (x % width + width) % width);
  }
}

/// Relative vorticity, 1/s, (height, width), of wind u eastward and v northward, m/s: centred differences, the
/// longitude closes; 0 at the first and the last row.
std::vector<float> vorticity(const Grid& grid, std::span<const float> u, std::span<const float> v);

}  // namespace petaflow::climate
