#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "climate/features.hpp"
#include "climate/physics.hpp"

namespace petaflow::climate {
namespace {

constexpr double kVortexReach = 2.5;  // radii beyond which a vortex has no effect

/// Wind and pressure by radius, the pressure from V^2 / r + f V = (dp/dr) / density.
class Profile {
 public:
  explicit Profile(const Vortex& vortex) : step_(kVortexReach * vortex.radius / kSteps) {
    const double core = vortex.core * vortex.radius;
    const double f = std::abs(coriolis(vortex.centre.latitude));
    for (int i = 1; i <= kSteps; ++i) {
      const double r = i * step_, x = std::pow(core / r, vortex.steepness), edge = r / (1.25 * vortex.radius);
      wind_[static_cast<std::size_t>(i)] = vortex.wind * std::sqrt(x * std::exp(1 - x)) / (1 + std::pow(edge, 6));
    }
    for (int i = kSteps - 1; i >= 0; --i) {
      const double r = (i + 0.5) * step_ * kMetresPerDegree;
      const double wind = (wind_[static_cast<std::size_t>(i)] + wind_[static_cast<std::size_t>(i) + 1]) / 2;
      pressure_[static_cast<std::size_t>(i)] =
          pressure_[static_cast<std::size_t>(i) + 1] - kAirDensity * wind * (wind / r + f) * step_ * kMetresPerDegree;
    }
  }

  double wind(double r) const { return at(wind_, r); }
  double pressure(double r) const { return at(pressure_, r); }

 private:
  static constexpr int kSteps = 200;
  using Table = std::array<double, kSteps + 1>;

  double at(const Table& table, double r) const {
    const double place = std::min(r / step_, kSteps - 1e-6);
    const auto i = static_cast<std::size_t>(place);
    const double rest = place - static_cast<double>(i);
    return (1 - rest) * table[i] + rest * table[i + 1];
  }

  double step_;
  Table wind_{}, pressure_{};
};

}  // namespace

Layers::Layers(std::size_t pixels) {
  for (auto* layer : {&pressure, &u850, &v850, &u_bottom, &v_bottom, &temperature, &t500, &t200, &water, &rain}) {
    layer->assign(pixels, 0.0F);
  }
}

std::vector<std::int64_t> add_vortex(const Grid& grid, const Vortex& vortex, Layers& layers) {
  const Profile profile(vortex);
  const double reach = kVortexReach * vortex.radius, latitude = vortex.centre.latitude;
  const double hemisphere = latitude < 0 ? -1 : 1;
  const double inflow = 22 * kRadians, inward = std::sin(inflow), around = std::cos(inflow);
  std::vector<std::int64_t> pixels;
  const double box = reach / std::max(0.2, std::cos((std::abs(latitude) + reach) * kRadians));
  for_each_in_box(grid, vortex.centre, std::min(box, 179.0), [&](std::int64_t row, std::int64_t column) {
    const double north = grid.latitude[static_cast<std::size_t>(row)] - latitude;
    if (std::abs(north) > reach) return;
    const double middle = (grid.latitude[static_cast<std::size_t>(row)] + latitude) / 2;
    const double east = turn_degrees(vortex.centre.longitude, grid.longitude[static_cast<std::size_t>(column)]) *
                        std::cos(middle * kRadians);
    const double r = std::hypot(north, east);
    if (r > reach) return;
    const auto at = static_cast<std::size_t>(row * grid.width() + column);
    const auto add = [at](std::vector<float>& layer, double value) { layer[at] += static_cast<float>(value); };
    const double x = r > 0 ? east / r : 0, y = r > 0 ? north / r : 0, share = r / vortex.radius;
    const double wind = profile.wind(r), turn = hemisphere * wind, carried = 0.6 * wind / vortex.wind;
    add(layers.pressure, profile.pressure(r));
    add(layers.u850, -turn * y + carried * vortex.u_motion);
    add(layers.v850, turn * x + carried * vortex.v_motion);
    add(layers.u_bottom, 0.8 * (-around * turn * y - inward * wind * x + carried * vortex.u_motion));
    add(layers.v_bottom, 0.8 * (around * turn * x - inward * wind * y + carried * vortex.v_motion));
    const double warm = std::exp(-share * share / 0.36),
                 ahead = vortex.warm_sector * share * x * std::exp(-share * share);
    add(layers.t500, vortex.warmth500 * warm + 0.7 * ahead);
    add(layers.t200, vortex.warmth200 * warm);
    add(layers.temperature, 0.15 * vortex.warmth500 * warm + ahead);
    const double square = share * share, shield = std::exp(-std::numbers::ln2 * square * square);
    add(layers.water, vortex.water * shield * (1 + 0.25 * std::exp(-2 * square)) + 1.2 * ahead);
    const double arms = 1 + 0.6 * std::cos(2 * std::atan2(hemisphere * north, east) + 5 * share);  // two spiral bands
    add(layers.rain, vortex.rain * (0.75 * std::exp(-6 * square) + 0.25 * shield * arms));
    if (share < 1) pixels.push_back(static_cast<std::int64_t>(at));
  });
  return pixels;
}

}  // namespace petaflow::climate
