#include "climate/rivers.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "climate/percentile.hpp"
#include "climate/plane.hpp"
#include "climate/sphere.hpp"

namespace petaflow::climate {
namespace {

/// Humidity falls by e in about 250 hPa, which is the mass of so much air, kg/m2.
constexpr double kMoistColumn = 2550;

/// Area of a pixel in each row, km2: the band between the middles to the neighbouring rows, cut at the poles.
std::vector<double> pixel_areas(const Grid& grid) {
  const std::vector<double>& latitude = grid.latitude;
  const std::size_t rows = latitude.size();
  const double turn = 2 * std::numbers::pi / static_cast<double>(grid.width());
  std::vector<double> areas(rows);
  for (std::size_t y = 0; y < rows; ++y) {
    const double south = y == 0 ? latitude[y] : (latitude[y - 1] + latitude[y]) / 2;
    const double north = y + 1 == rows ? latitude[y] : (latitude[y] + latitude[y + 1]) / 2;
    areas[y] = kEarthRadiusKm * kEarthRadiusKm * turn * (std::sin(north * kRadians) - std::sin(south * kRadians));
  }
  return areas;
}

bool is_river(const Grid& grid, const Component& part, const std::vector<double>& areas, const RiverOptions& options) {
  const auto width = grid.width();
  const auto longitude = [&](std::int64_t x) { return grid.longitude[static_cast<std::size_t>(x % width)]; };
  const double south = grid.latitude[static_cast<std::size_t>(part.ymin)],
               north = grid.latitude[static_cast<std::size_t>(part.ymax)];
  const double length = distance_km(south, longitude(part.xmin), north, longitude(part.xmin));
  const double diagonal = distance_km(south, longitude(part.xmin), north, longitude(part.xmax));
  if (length == 0 || diagonal <= options.min_length_km) return false;
  double area = 0;
  for (const std::int64_t at : part.pixels) area += areas[static_cast<std::size_t>(at / width)];
  return area / length < options.max_width_km;
}

}  // namespace

std::vector<double> damped(const Grid& grid, std::span<const float> field, double latitude_sigma) {
  const auto width = static_cast<std::size_t>(grid.width());
  PETAFLOW_REQUIRE(field.size() == width * grid.latitude.size(), "{} values on a grid of {} x {}", field.size(),
                   grid.height(), width);
  std::vector<double> result(field.size());
  for (std::size_t y = 0; y < grid.latitude.size(); ++y) {
    const double z = grid.latitude[y] / latitude_sigma, factor = 1 - std::exp(-z * z / 2);
    for (std::size_t at = y * width; at < (y + 1) * width; ++at) result[at] = factor * static_cast<double>(field[at]);
  }
  return result;
}

std::vector<float> vapour_transport(const Frame& frame) {
  const std::span<const float> u = plane(frame, kU850), v = plane(frame, kV850), q = plane(frame, kQrefht);
  std::vector<float> transport(u.size());
  for (std::size_t i = 0; i < u.size(); ++i) {
    transport[i] = static_cast<float>(kMoistColumn) * q[i] * std::hypot(u[i], v[i]);
  }
  return transport;
}

std::vector<std::uint8_t> river_candidates(const Grid& grid, std::span<const float> field,
                                           const RiverOptions& options) {
  const std::vector<double> value = damped(grid, field, options.latitude_sigma);
  const double threshold = options.percentile > 0 ? percentile<double>(value, options.percentile) : options.threshold;
  std::vector<std::uint8_t> mask(value.size());
  std::transform(value.begin(), value.end(), mask.begin(), [&](double x) { return x - threshold > 0; });
  return mask;
}

std::vector<std::uint8_t> find_rivers(const Grid& grid, std::span<const float> field, const RiverOptions& options) {
  const std::vector<double> areas = pixel_areas(grid);
  std::vector<std::uint8_t> mask = river_candidates(grid, field, options);
  for (const Component& part : find_components(mask, grid.width(), options.connectivity)) {
    if (is_river(grid, part, areas, options)) continue;
    for (const std::int64_t at : part.pixels) mask[static_cast<std::size_t>(at)] = 0;
  }
  return mask;
}

std::vector<std::uint8_t> find_rivers(const Frame& frame, const RiverOptions& options) {
  if (options.field == RiverField::kWater) return find_rivers(frame.grid, plane(frame, kTmq), options);
  return find_rivers(frame.grid, vapour_transport(frame), options);
}

}  // namespace petaflow::climate
