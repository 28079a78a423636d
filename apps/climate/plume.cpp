#include <algorithm>
#include <cmath>
#include <numbers>

#include "climate/features.hpp"
#include "climate/physics.hpp"

namespace petaflow::climate {
namespace {

constexpr double kLineStep = 1.25;   // degrees between points of a line
constexpr double kPlumeReach = 3.6;  // half widths beyond which a plume has no effect
constexpr double kPolewardEnd = 66;  // degrees

double smooth_step(double x) {
  x = std::clamp(x, 0.0, 1.0);
  return x * x * (3 - 2 * x);
}

/// Where a pixel lies: distance to the line, degrees, positive on its left; share of the line's length; direction
/// there.
struct Nearest {
  double distance = 1e9, along = 0, x = 0, y = 0;
};

/// The part of the grid around a line; its columns are counted without wrapping.
struct Window {
  std::int64_t first_row, last_row, first_column, last_column;  // inclusive
  std::vector<Nearest> nearest;

  Window(const Grid& grid, const std::vector<Place>& line, double reach) {
    double west = 1e9, east = -1e9, south = 90, north = -90;
    for (const Place& place : line) {
      const double wide = reach / std::max(0.2, std::cos(place.latitude * kRadians));
      west = std::min(west, place.longitude - wide), east = std::max(east, place.longitude + wide);
      south = std::min(south, place.latitude - reach), north = std::max(north, place.latitude + reach);
    }
    const double column = 360.0 / static_cast<double>(grid.width());
    first_column = static_cast<std::int64_t>(std::ceil(west / column));
    last_column = std::min(static_cast<std::int64_t>(std::floor(east / column)), first_column + grid.width() - 1);
    first_row = std::ranges::lower_bound(grid.latitude, south) - grid.latitude.begin();
    last_row = std::ranges::upper_bound(grid.latitude, north) - grid.latitude.begin() - 1;
    nearest.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, last_row - first_row + 1) * width()));
  }
  std::int64_t width() const { return std::max<std::int64_t>(0, last_column - first_column + 1); }
  Nearest& at(std::int64_t row, std::int64_t column) {
    return nearest[static_cast<std::size_t>((row - first_row) * width() + column - first_column)];
  }
};

/// Brings the pixels within reach of the segment from a to b, which begins and ends at so much of the line, up to date.
void visit_segment(const Grid& grid, const Place& a, const Place& b, double begin, double end, double reach,
                   Window& window) {
  const double column = 360.0 / static_cast<double>(grid.width());
  for (std::int64_t row = window.first_row; row <= window.last_row; ++row) {
    const double latitude = grid.latitude[static_cast<std::size_t>(row)];
    if (latitude < std::min(a.latitude, b.latitude) - reach || latitude > std::max(a.latitude, b.latitude) + reach)
      continue;
    const double cosine = std::max(0.2, std::cos(latitude * kRadians)), wide = reach / cosine;
    const double dx = (b.longitude - a.longitude) * cosine, dy = b.latitude - a.latitude;
    const double length = std::hypot(dx, dy);
    const auto west = static_cast<std::int64_t>(std::ceil((std::min(a.longitude, b.longitude) - wide) / column));
    const auto east = static_cast<std::int64_t>(std::floor((std::max(a.longitude, b.longitude) + wide) / column));
    for (std::int64_t x = std::max(west, window.first_column); x <= std::min(east, window.last_column); ++x) {
      const double px = (static_cast<double>(x) * column - a.longitude) * cosine, py = latitude - a.latitude;
      const double share = std::clamp((px * dx + py * dy) / (length * length), 0.0, 1.0);
      const double distance = std::hypot(px - share * dx, py - share * dy);
      Nearest& nearest = window.at(row, x);
      if (distance >= std::abs(nearest.distance)) continue;
      const double side = dx * py - dy * px >= 0 ? 1 : -1;
      nearest = {side * distance, begin + share * (end - begin), dx / length, dy / length};
    }
  }
}

}  // namespace

std::vector<Place> curved_line(Place start, double heading, double bend, double bend_back, double length) {
  const double pole = start.latitude < 0 ? -1 : 1;
  const int steps = std::max(2, static_cast<int>(length / kLineStep));
  std::vector<Place> line = {start};
  for (int i = 0; i < steps && std::abs(line.back().latitude) < kPolewardEnd; ++i) {
    heading += (2 * i < steps ? bend : bend_back) * 2 / steps;
    const Place& last = line.back();
    line.push_back({last.latitude + pole * kLineStep * std::sin(heading * kRadians),
                    last.longitude + kLineStep * std::cos(heading * kRadians) / std::cos(last.latitude * kRadians)});
  }
  return line;
}

std::vector<std::int64_t> add_plume(const Grid& grid, const Plume& plume, Layers& layers) {
  const double reach = kPlumeReach * plume.half_width;
  Window window(grid, plume.line, reach);
  const double segments = static_cast<double>(plume.line.size() - 1);
  for (std::size_t i = 0; i + 1 < plume.line.size(); ++i) {
    const auto begin = static_cast<double>(i);
    visit_segment(grid, plume.line[i], plume.line[i + 1], begin / segments, (begin + 1) / segments, reach, window);
  }
  std::vector<std::int64_t> pixels;
  const std::int64_t width = grid.width();
  const double broad = 1.3 * plume.half_width;  // the wind's bell
  for (std::int64_t row = window.first_row; row <= window.last_row; ++row) {
    const double f = coriolis(grid.latitude[static_cast<std::size_t>(row)]);
    for (std::int64_t column = window.first_column; column <= window.last_column; ++column) {
      const Nearest& nearest = window.at(row, column);
      if (std::abs(nearest.distance) > reach) continue;
      const auto at = static_cast<std::size_t>(row * width + (column % width + width) % width);
      const auto add = [at](std::vector<float>& layer, double value) { layer[at] += static_cast<float>(value); };
      const double ends = smooth_step(nearest.along / 0.14) * smooth_step((1 - nearest.along) / 0.14);
      const double share = nearest.distance / plume.half_width, square = share * share;
      const double moist = ends * std::exp(-std::numbers::ln2 * square * square), z = nearest.distance / broad;
      add(layers.water, plume.water * (1 - 0.4 * nearest.along) * moist);
      add(layers.rain, plume.rain * moist * moist);
      add(layers.temperature, plume.warmth * moist);
      add(layers.t500, 0.6 * plume.warmth * moist);
      const double wind = plume.wind * ends * std::exp(-z * z);
      add(layers.u850, wind * nearest.x), add(layers.v850, wind * nearest.y);
      add(layers.u_bottom, 0.65 * wind * nearest.x), add(layers.v_bottom, 0.65 * wind * nearest.y);
      // The wind's geostrophic pressure: lower on its left in the north; it fades away from the line.
      const double slope = kAirDensity * f * plume.wind * broad * kMetresPerDegree * 0.886226925;
      add(layers.pressure, -slope * std::erf(z) * ends * std::exp(-square / 3.2));
      if (std::abs(share) < 1 && ends > 0.5) pixels.push_back(static_cast<std::int64_t>(at));
    }
  }
  return pixels;
}

}  // namespace petaflow::climate
