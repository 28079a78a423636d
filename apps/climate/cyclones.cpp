#include "climate/cyclones.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "climate/components.hpp"
#include "climate/percentile.hpp"
#include "climate/plane.hpp"

namespace petaflow::climate {
namespace {

// TECA's defaults, in degrees: none of its sets changes them.
constexpr double kCoreRadius = 2, kVorticityWindow = 7.75, kRingRadius = 5;
constexpr double kLowestVorticity = 1e-5;  // 1/s, of the set "super_relaxed"

constexpr int kDirections = 16;

/// The smallest over the directions of the largest value of sign (field - field at the centre) within the radius.
double rise_in_every_direction(const Grid& grid, std::span<const float> field, std::int64_t centre, double radius,
                               float sign) {
  const Place middle{grid.latitude[static_cast<std::size_t>(centre / grid.width())],
                     grid.longitude[static_cast<std::size_t>(centre % grid.width())]};
  const double step = std::min(radius, 180.0 / static_cast<double>(grid.height()));
  float least = INFINITY;
  for (int k = 0; k < kDirections; ++k) {
    float most = 0;
    for (double r = step; r < radius + step / 2; r += step) {
      const std::int64_t at = nearest_pixel(grid, travel(middle, 360.0 * k / kDirections, r));
      most = std::max(most, sign * (field[static_cast<std::size_t>(at)] - field[static_cast<std::size_t>(centre)]));
    }
    least = std::min(least, most);
  }
  return static_cast<double>(least);
}

/// The pixel within the radius, in degrees of a great circle, that is better than all others.
template <typename Better>
std::int64_t best_pixel(const Grid& grid, const Place& middle, double radius, const Better& better) {
  std::int64_t best = nearest_pixel(grid, middle);
  const double box = radius / std::max(0.1, std::cos(middle.latitude * kRadians));
  for_each_in_box(grid, middle, std::min(box, 180.0), [&](std::int64_t y, std::int64_t x) {
    const double latitude = grid.latitude[static_cast<std::size_t>(y)];
    const double longitude = grid.longitude[static_cast<std::size_t>(x)];
    const double distance = distance_km(middle.latitude, middle.longitude, latitude, longitude);
    if (distance > radius * kRadians * kEarthRadiusKm) return;
    if (better(y * grid.width() + x, best)) best = y * grid.width() + x;
  });
  return best;
}

/// Radius of the widest ring, all rings within it included, on which the mean wind is a gale; steps of half a pixel.
double gale_radius(const Grid& grid, const std::vector<float>& wind, const Place& centre) {
  const double step = 90.0 / static_cast<double>(grid.height());
  double radius = 0;
  for (double r = step; r < 15; r += step) {
    double mean = 0;
    for (int k = 0; k < kDirections; ++k) {
      const auto at = nearest_pixel(grid, travel(centre, 360.0 * k / kDirections, r));
      mean += static_cast<double>(wind[static_cast<std::size_t>(at)]) / kDirections;
    }
    if (mean >= kGaleWind) {
      radius = r;
    } else if (radius > 0 || r > kCoreRadius) {  // it is calm in the eye
      break;
    }
  }
  return radius;
}

}  // namespace

CycloneOptions cyclone_set(std::string_view name) {
  CycloneOptions options;
  if (name == "default") return options;
  const auto set = [&](double vorticity, double warmth, double pressure) {
    options.min_vorticity = vorticity, options.min_core_warmth = warmth, options.min_pressure_rise = pressure;
    return options;
  };
  if (name == "medium") return set(1.5e-4, 0.7, 350);
  if (name == "relaxed") return set(1.4e-4, 0.6, 300);
  if (name == "super_relaxed") return set(kLowestVorticity, 0.1, 100);
  user_error("there are no criteria of cyclones named '{}': {}", name, fmt::join(kCycloneSets, ", "));
}

std::vector<CycloneCandidate> cyclone_candidates(const Frame& frame) {
  const Grid& grid = frame.grid;
  const auto width = static_cast<std::size_t>(grid.width());
  std::vector<float> spin = vorticity(grid, plane(frame, kU850), plane(frame, kV850));
  for (std::size_t y = 0; y < grid.latitude.size(); ++y) {
    if (grid.latitude[y] >= 0) continue;
    for (std::size_t x = 0; x < width; ++x) spin[y * width + x] *= -1;
  }
  const std::span<const float> pressure = plane(frame, kPsl);
  const std::span<const float> u = plane(frame, kUbot), v = plane(frame, kVbot);
  std::vector<float> warmth(spin.size()), wind(spin.size());
  for (std::size_t i = 0; i < spin.size(); ++i) {
    warmth[i] = (plane(frame, kT200)[i] + plane(frame, kT500)[i]) / 2;
    wind[i] = std::hypot(u[i], v[i]);
  }
  const auto greater = [](const auto& field) {
    return [&field](std::int64_t a, std::int64_t b) {
      return field[static_cast<std::size_t>(a)] > field[static_cast<std::size_t>(b)];
    };
  };
  std::vector<CycloneCandidate> candidates;
  for (std::size_t y = 1; y + 1 < grid.latitude.size(); ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const std::size_t at = y * width + x;
      if (spin[at] < static_cast<float>(kLowestVorticity)) continue;
      const std::size_t east = y * width + (x + 1) % width;
      if (spin[east] > spin[at] || spin[at + width] > spin[at]) continue;  // spares most pixels the window
      const Place peak{grid.latitude[y], grid.longitude[x]};
      bool highest = true;
      for_each_in_box(grid, peak, kVorticityWindow / 2, [&](std::int64_t row, std::int64_t column) {
        const std::size_t other = static_cast<std::size_t>(row) * width + static_cast<std::size_t>(column);
        highest = highest && (spin[other] < spin[at] || (spin[other] == spin[at] && other >= at));
      });
      if (!highest) continue;
      const std::int64_t low = best_pixel(grid, peak, kCoreRadius, [&](std::int64_t a, std::int64_t b) {
        return pressure[static_cast<std::size_t>(a)] < pressure[static_cast<std::size_t>(b)];
      });
      const Place centre{grid.latitude[static_cast<std::size_t>(low) / width],
                         grid.longitude[static_cast<std::size_t>(low) % width]};
      const std::int64_t core = best_pixel(grid, centre, kCoreRadius, greater(warmth));
      const std::int64_t windiest = best_pixel(grid, centre, kRingRadius, greater(wind));
      candidates.push_back({.centre = centre,
                            .vorticity = static_cast<double>(spin[at]),
                            .pressure_rise = rise_in_every_direction(grid, pressure, low, kRingRadius, 1),
                            .core_warmth = rise_in_every_direction(grid, warmth, core, kRingRadius, -1),
                            .wind = static_cast<double>(wind[static_cast<std::size_t>(windiest)]),
                            .radius = gale_radius(grid, wind, centre)});
    }
  }
  return candidates;
}

bool is_cyclone(const CycloneCandidate& candidate, const CycloneOptions& options) {
  return candidate.vorticity >= options.min_vorticity && candidate.pressure_rise >= options.min_pressure_rise &&
         candidate.core_warmth >= options.min_core_warmth && candidate.wind >= options.min_wind &&
         std::abs(candidate.centre.latitude) <= options.max_latitude;
}

std::vector<std::int64_t> cyclone_pixels(const Frame& frame, const CycloneCandidate& storm,
                                         const CycloneOptions& options) {
  std::vector<std::int64_t> box;  // its pixels; its rows are equally long
  std::int64_t first_row = -1, box_width = 0;
  for_each_in_box(frame.grid, storm.centre, storm.radius + options.box_margin, [&](std::int64_t y, std::int64_t x) {
    if (first_row < 0) first_row = y;
    if (y == first_row) ++box_width;
    box.push_back(y * frame.grid.width() + x);
  });
  if (box.empty()) return {};
  std::vector<std::uint8_t> mask(box.size()), all(box.size());
  std::vector<float> values(box.size());
  for (const FieldIndex field : {kTmq, kU850, kV850, kPrect}) {
    for (std::size_t i = 0; i < box.size(); ++i) values[i] = plane(frame, field)[static_cast<std::size_t>(box[i])];
    const float threshold = percentile<float>(values, options.percentile);
    std::transform(values.begin(), values.end(), mask.begin(), [&](float value) { return value > threshold; });
    const auto parts = find_components(mask, box_width, {.diagonal = true});
    const Component* part = largest(parts);
    if (part == nullptr) continue;  // the field is even
    for (const std::int64_t at : part->pixels) all[static_cast<std::size_t>(at)] = 1;
  }
  std::vector<std::int64_t> pixels;
  const auto parts = find_components(all, box_width, {.diagonal = true});
  if (const Component* part = largest(parts)) {
    for (const std::int64_t at : part->pixels) pixels.push_back(box[static_cast<std::size_t>(at)]);
  }
  return pixels;
}

}  // namespace petaflow::climate
