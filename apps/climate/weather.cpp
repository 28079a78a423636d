#include "climate/weather.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/error.hpp"
#include "climate/background.hpp"
#include "climate/physics.hpp"
#include "climate/plane.hpp"
#include "climate/situation.hpp"

namespace petaflow::climate {
namespace {

constexpr std::int64_t kStepHours = 3, kHoursOfYear = 365 * 24;  // CAM5's calendar has no leap years
constexpr int kFirstYear = 1979;
// What the DeepCAM set hardly exceeds, where features lie over each other: kg/m2, m/s of rain, m/s of wind.
constexpr float kMostWater = 105, kMostRain = 3.6e-5F, kMostWind = 100;

/// "1979-01-31T03:00:00", so many hours after the begin of 1979.
std::string time_of(std::int64_t hours) {
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  std::int64_t day = hours % kHoursOfYear / 24;
  std::size_t month = 0;
  for (; day >= kDays[month]; ++month) day -= kDays[month];
  return fmt::format("{:04}-{:02}-{:02}T{:02}:00:00", kFirstYear + hours / kHoursOfYear, month + 1, day + 1,
                     hours % 24);
}

/// Begin of a series, hours: five days and three hours after the one before, or so many days more that it has ended.
std::int64_t begin_of(const WeatherOptions& options, std::int64_t series) {
  return series * (24 * std::max<std::int64_t>(5, (options.series_steps + 7) / 8) + kStepHours);
}

/// 1 in the northern midsummer (three weeks after the solstice), -1 half a year later.
double season_of(std::int64_t hours) {
  const double day = static_cast<double>(hours % kHoursOfYear) / 24;
  return std::cos(2 * std::numbers::pi * (day - 195) / 365);
}

/// The narrowest box around pixels; nothing where there are none.
void append_box(const Grid& grid, const std::vector<std::int64_t>& pixels, std::int32_t kind, std::vector<Box>& boxes) {
  if (pixels.empty()) return;
  boxes.push_back(box_around(bounds(pixels, grid.width()), kind));
}

/// Adds the events and labels those that are tropical cyclones or rivers; cyclones override rivers.
Layers add_features(const Situation& sky, Frame& frame) {
  Layers layers(static_cast<std::size_t>(frame.pixels()));
  frame.labels.assign(static_cast<std::size_t>(frame.pixels()), static_cast<std::uint8_t>(Tag::kBackground));
  const auto label = [&](const std::vector<std::int64_t>& pixels, Tag tag) {
    for (const std::int64_t at : pixels) frame.labels[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(tag);
  };
  for (const Plume& plume : sky.plumes) {
    const auto pixels = add_plume(frame.grid, plume, layers);
    if (!plume.is_river) continue;
    label(pixels, Tag::kRiver);
    append_box(frame.grid, pixels, kRiverBox, frame.boxes);
  }
  for (const Vortex& vortex : sky.vortices) {
    const auto pixels = add_vortex(frame.grid, vortex, layers);
    if (vortex.kind == kCycloneBox) label(pixels, Tag::kCyclone);
    append_box(frame.grid, pixels, vortex.kind, frame.boxes);
  }
  return layers;
}

/// Slope of a field (height, width) along a row and a column, per metre, at (y, x).
struct Slope {
  float x, y;
};
class Slopes {
 public:
  explicit Slopes(const Grid& grid) : width_(static_cast<std::size_t>(grid.width())), by_x_(grid.latitude.size()) {
    const double column = 360.0 / static_cast<double>(width_), row = 180.0 / static_cast<double>(grid.height() - 1);
    by_y_ = static_cast<float>(1 / (2 * row * kMetresPerDegree));
    for (std::size_t y = 0; y < by_x_.size(); ++y) {
      const double cosine = std::max(0.02, std::cos(grid.latitude[y] * kRadians));
      by_x_[y] = static_cast<float>(1 / (2 * column * kMetresPerDegree * cosine));
    }
  }
  Slope operator()(const std::vector<float>& field, std::size_t y, std::size_t x) const {
    const std::size_t west = x == 0 ? width_ - 1 : x - 1, east = x + 1 == width_ ? 0 : x + 1;
    const std::size_t south = y == 0 ? 0 : y - 1, north = y + 1 == by_x_.size() ? y : y + 1;
    return {(field[y * width_ + east] - field[y * width_ + west]) * by_x_[y],
            (field[north * width_ + x] - field[south * width_ + x]) * by_y_};
  }

 private:
  std::size_t width_;
  float by_y_ = 0;
  std::vector<float> by_x_;
};

/// Brings the speed below kMostWind, by 1 % at a third of it.
void limit_wind(float& u, float& v) {
  const float share = (u * u + v * v) / (kMostWind * kMostWind),
              factor = 1 / std::sqrt(std::sqrt(1 + share * share * 4));
  u *= factor;
  v *= factor;
}

/// Wind at 850 hPa and at the lowest level: geostrophic, with the thermal wind above the ground and friction below.
void set_wind(const Background& air, const Layers& layers, Frame& frame) {
  const Slopes slopes(frame.grid);
  const std::span<float> u850 = plane(frame, kU850), v850 = plane(frame, kV850);
  const std::span<float> ub = plane(frame, kUbot), vb = plane(frame, kVbot);
  const auto width = static_cast<std::size_t>(frame.grid.width());
  constexpr float kThermal = 287 * 0.1625F;  // gas constant times ln(1000 / 850)
  for (std::size_t y = 0; y < frame.grid.latitude.size(); ++y) {
    const double f = coriolis(frame.grid.latitude[y]), f0 = coriolis(9);
    const auto inverse =
        static_cast<float>(f / (f * f + f0 * f0 * std::exp(-f * f / (f0 * f0))));  // calm at the equator
    const float turn = f < 0 ? 0.30F : -0.30F;  // friction turns the wind by 18 degrees towards low pressure
    for (std::size_t x = 0; x < width; ++x) {
      const std::size_t at = y * width + x;
      const Slope p = slopes(air.pressure, y, x), t = slopes(air.t500, y, x);
      const float by_density = inverse / static_cast<float>(kAirDensity), thermal = inverse * kThermal;
      const float u = -by_density * p.y, v = by_density * p.x;
      u850[at] = u - thermal * t.y + layers.u850[at];
      v850[at] = v + thermal * t.x + layers.v850[at];
      ub[at] = 0.72F * (u + turn * v) + layers.u_bottom[at];
      vb[at] = 0.72F * (v - turn * u) + layers.v_bottom[at];
      limit_wind(u850[at], v850[at]);
      limit_wind(ub[at], vb[at]);
    }
  }
}

/// All else, pixel by pixel: moisture from saturation and temperature, heights from temperatures.
void set_columns(const Background& air, const Layers& layers, Frame& frame) {
  const auto at_plane = [&](FieldIndex field) { return plane(frame, field).data(); };
  float *const tmq = at_plane(kTmq), *const q = at_plane(kQrefht), *const ps = at_plane(kPs),
               *const psl = at_plane(kPsl);
  float *const t200 = at_plane(kT200), *const t500 = at_plane(kT500), *const rain = at_plane(kPrect);
  float *const ts = at_plane(kTs), *const t = at_plane(kTrefht);
  float *const z1000 = at_plane(kZ1000), *const z200 = at_plane(kZ200), *const zbot = at_plane(kZbot);
  constexpr auto kHeight = static_cast<float>(kScaleHeight);
  const float lower = std::log(2.0F) / 2, upper = std::log(2.5F) / 2;  // layers 1000 to 500 and 500 to 200 hPa
  for (std::size_t at = 0; at < air.pressure.size(); ++at) {
    const float ground = air.height[at];
    psl[at] = air.pressure[at] + layers.pressure[at];
    t[at] = air.temperature[at] + layers.temperature[at];
    t500[at] = air.t500[at] + layers.t500[at];
    t200[at] = air.t200[at] + layers.t200[at];
    const float sea_level = t[at] + 0.0065F * ground;
    ps[at] = psl[at] * std::pow(1 - 0.0065F * ground / sea_level, 5.256F);
    ts[at] = t[at] + (ground > 0 ? 1.2F : 0.5F);
    const float most = saturated_water(t[at]);
    tmq[at] = std::clamp(air.saturation[at] * most + layers.water[at], 0.05F, std::min(kMostWater, 1.4F * most + 10));
    q[at] = std::clamp(0.45F + 0.45F * tmq[at] / most, 0.15F, 1.0F) * saturated_humidity(t[at], ps[at]);
    rain[at] = std::min(kMostRain, air.rain[at] + layers.rain[at]);
    zbot[at] = 61.1F * t[at] / 278;
    const float hydrostatic = kHeight * sea_level * std::log(psl[at] / 100000);
    z1000[at] = std::max(hydrostatic, ground > 0 ? ground + zbot[at] : 0);  // the model has none below its ground
    z200[at] = hydrostatic + kHeight * (lower * (sea_level + t500[at]) + upper * (t500[at] + t200[at]));
  }
}

}  // namespace

void check(const WeatherOptions& options) {
  if (options.series_steps < 1) user_error("generate.series_steps is {}; it must be at least 1", options.series_steps);
}

std::string weather_time(const WeatherOptions& options, std::int64_t index) {
  return time_of(begin_of(options, index / options.series_steps) + index % options.series_steps * kStepHours);
}

Frame weather_frame(const WeatherOptions& options, const Grid& grid, std::uint64_t seed, std::int64_t index) {
  check(options);
  PETAFLOW_REQUIRE(index >= 0, "frame {}", index);
  const std::int64_t series = index / options.series_steps, step = index % options.series_steps;
  const std::int64_t begin = begin_of(options, series);
  const auto hours = static_cast<double>(step * kStepHours);
  const double season = season_of(begin);
  Frame frame;
  frame.grid = grid;
  frame.time = weather_time(options, index);
  frame.fields.resize(static_cast<std::size_t>(kFieldCount * frame.pixels()));
  const Background air = make_background(grid, seed, series, hours, season);
  const Layers layers = add_features(draw_situation(seed, series, hours, season), frame);
  set_wind(air, layers, frame);
  set_columns(air, layers, frame);
  return frame;
}

}  // namespace petaflow::climate
