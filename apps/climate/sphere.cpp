#include "climate/sphere.hpp"

#include "base/error.hpp"

namespace petaflow::climate {

Place travel(const Place& from, double azimuth, double degrees) {
  const double lat = from.latitude * kRadians, a = azimuth * kRadians, d = degrees * kRadians;
  const double sine = std::sin(lat) * std::cos(d) + std::cos(lat) * std::sin(d) * std::cos(a);
  const double turn = std::atan2(std::sin(a) * std::sin(d) * std::cos(lat), std::cos(d) - std::sin(lat) * sine);
  return {std::asin(std::clamp(sine, -1.0, 1.0)) / kRadians, from.longitude + turn / kRadians};
}

std::int64_t nearest_pixel(const Grid& grid, const Place& place) {
  const std::vector<double>& latitude = grid.latitude;
  auto y = std::lower_bound(latitude.begin(), latitude.end(), place.latitude) - latitude.begin();
  if (y == std::ssize(latitude)) --y;
  const auto at = static_cast<std::size_t>(y);
  if (y > 0 && place.latitude - latitude[at - 1] < latitude[at] - place.latitude) --y;
  const std::int64_t width = grid.width();
  const std::int64_t x = std::llround(place.longitude * static_cast<double>(width) / 360) % width;
  return y * width + (x + width) % width;
}

std::vector<float> vorticity(const Grid& grid, std::span<const float> u, std::span<const float> v) {
  const auto height = static_cast<std::size_t>(grid.height()), width = static_cast<std::size_t>(grid.width());
  PETAFLOW_REQUIRE(u.size() == height * width && v.size() == u.size(), "{} and {} values on a grid of {} x {}",
                   u.size(), v.size(), height, width);
  constexpr double kRadius = 1000 * kEarthRadiusKm;
  const double dx = 4 * std::numbers::pi / static_cast<double>(width);  // of two columns
  std::vector<float> result(u.size());
  for (std::size_t y = 1; y + 1 < height; ++y) {
    const double cosine = std::cos(grid.latitude[y] * kRadians);
    const auto south = static_cast<float>(std::cos(grid.latitude[y - 1] * kRadians)),
               north = static_cast<float>(std::cos(grid.latitude[y + 1] * kRadians));
    const auto by_x = static_cast<float>(1 / (kRadius * cosine * dx));
    const auto by_y =
        static_cast<float>(1 / (kRadius * cosine * (grid.latitude[y + 1] - grid.latitude[y - 1]) * kRadians));
    for (std::size_t x = 0; x < width; ++x) {
      const std::size_t west = x == 0 ? width - 1 : x - 1, east = x + 1 == width ? 0 : x + 1;
      result[y * width + x] = by_x * (v[y * width + east] - v[y * width + west]) -
                              by_y * (north * u[(y + 1) * width + x] - south * u[(y - 1) * width + x]);
    }
  }
  return result;
}

}  // namespace petaflow::climate
