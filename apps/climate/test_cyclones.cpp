// Tropical cyclones by criteria: vorticity on the sphere, what each criterion refuses, masks and boxes.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "climate/boxes.hpp"
#include "climate/labels.hpp"
#include "climate/plane.hpp"
#include "climate/sphere.hpp"

namespace petaflow::climate {
namespace {

struct Storm {
  Place centre{18, 200};
  double depth = 3000;   // Pa
  double wind = 45;      // m/s, at 1.5 degrees, cyclonic
  double warmth = 5;     // K
  double moisture = 30;  // kg/m2
};

/// An even, calm tropical atmosphere with storms: pressure, temperature and water are bells of 2 degrees, the wind is
/// w (r/R) exp((1 - (r/R)^2) / 2) around the centre.
Frame calm_with(std::initializer_list<Storm> storms, std::int64_t height = 181, std::int64_t width = 360) {
  Frame frame;
  frame.grid = cam5_grid(height, width);
  const std::size_t pixels = static_cast<std::size_t>(frame.pixels());
  frame.fields.assign(16 * pixels, 0.0F);
  const auto fill = [&](FieldIndex field, float value) { std::ranges::fill(plane(frame, field), value); };
  fill(kPsl, 101000), fill(kT200, 220), fill(kT500, 265), fill(kTmq, 15);
  for (const Storm& storm : storms) {
    for (std::size_t i = 0; i < pixels; ++i) {
      const double lat = frame.grid.latitude[i / static_cast<std::size_t>(width)];
      const double lon = frame.grid.longitude[i % static_cast<std::size_t>(width)];
      const double y = lat - storm.centre.latitude;
      const double x = turn_degrees(storm.centre.longitude, lon) * std::cos(lat * kRadians);
      const double r = std::hypot(x, y), bell = std::exp(-r * r / 8), s = r / 1.5;
      const double speed = storm.wind * std::exp((1 - s * s) / 2) / 1.5 * (storm.centre.latitude < 0 ? -1 : 1);
      const auto add = [&](FieldIndex field, double value) { plane(frame, field)[i] += static_cast<float>(value); };
      add(kPsl, -storm.depth * bell), add(kTmq, storm.moisture * bell), add(kPrect, 1e-6 * bell);
      add(kT200, storm.warmth * bell), add(kT500, storm.warmth * bell);
      for (const FieldIndex u : {kU850, kUbot}) add(u, -speed * y);
      for (const FieldIndex v : {kV850, kVbot}) add(v, speed * x);
    }
  }
  return frame;
}

std::int64_t found(const Frame& frame, const CycloneOptions& options = {}) {
  const auto candidates = cyclone_candidates(frame);
  return std::count_if(candidates.begin(), candidates.end(), [&](const auto& c) { return is_cyclone(c, options); });
}

TEST(Vorticity, OfSolidRotationIsTwiceItsNormalRate) {
  const Grid grid = cam5_grid(181, 360);
  std::vector<float> u(181 * 360), v(u.size());
  constexpr double kRate = 1e-5;
  for (std::size_t i = 0; i < u.size(); ++i) {
    u[i] = static_cast<float>(kRate * 1000 * kEarthRadiusKm * std::cos(grid.latitude[i / 360] * kRadians));
  }
  const auto spin = vorticity(grid, u, v);
  for (std::size_t y = 1; y < 180; ++y) {
    EXPECT_NEAR(static_cast<double>(spin[y * 360 + 7]), 2 * kRate * std::sin(grid.latitude[y] * kRadians), 2e-8);
  }
}

TEST(Vorticity, OfWindOverThePolesIsZero) {  // rotation around an axis in the equator's plane: u = a sin lat cos lon
  const Grid grid = cam5_grid(181, 360);
  std::vector<float> u(181 * 360), v(u.size());
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double lat = grid.latitude[i / 360] * kRadians, lon = grid.longitude[i % 360] * kRadians;
    u[i] = static_cast<float>(-60 * std::sin(lat) * std::cos(lon));
    v[i] = static_cast<float>(60 * std::sin(lon));
  }
  const auto spin = vorticity(grid, u, v);
  for (std::size_t i = 20 * 360; i < 161 * 360; ++i) {  // 2 (60 / a) cos lat cos lon, to 70 degrees
    const double lat = grid.latitude[i / 360] * kRadians, lon = grid.longitude[i % 360] * kRadians;
    EXPECT_NEAR(static_cast<double>(spin[i]), 120 / (1000 * kEarthRadiusKm) * std::cos(lat) * std::cos(lon), 1e-8);
  }
}

TEST(Sphere, TravelsAlongGreatCircles) {
  const Place north = travel({10, 350}, 0, 25), east = travel({0, 350}, 90, 30), over = travel({80, 20}, 0, 30);
  EXPECT_NEAR(north.latitude, 35, 1e-9);
  EXPECT_NEAR(east.longitude, 380, 1e-9);
  EXPECT_NEAR(over.latitude, 70, 1e-9);
  EXPECT_NEAR(turn_degrees(over.longitude, 200), 0, 1e-6);
  const Place far = travel({40, 100}, 63, 12);
  EXPECT_NEAR(distance_km(40, 100, far.latitude, far.longitude), 12 * kRadians * kEarthRadiusKm, 1e-6);
  EXPECT_EQ(nearest_pixel(cam5_grid(181, 360), {-89.6, 359.7}), 0);
}

TEST(Cyclones, AreFoundAtTheLowestPressure) {
  const Frame frame = calm_with({{}, {.centre = {-15, 0}}, {.centre = {25, 100}}});
  const auto candidates = cyclone_candidates(frame);
  std::vector<Place> centres;
  for (const CycloneCandidate& candidate : candidates) {
    if (is_cyclone(candidate, {})) centres.push_back(candidate.centre);
  }
  ASSERT_EQ(centres.size(), 3U);  // from south to north
  EXPECT_EQ(centres[0].latitude, -15);
  EXPECT_EQ(centres[0].longitude, 0);
  EXPECT_EQ(centres[1].latitude, 18);
  EXPECT_EQ(centres[1].longitude, 200);
  EXPECT_EQ(centres[2].longitude, 100);
}

TEST(Cyclones, AreMeasuredAsTheyWereMade) {
  const auto candidates = cyclone_candidates(calm_with({{}}));
  const auto storm = std::ranges::max_element(candidates, {}, &CycloneCandidate::vorticity);
  const double peak = 2 * 45 * std::exp(0.5) / (1.5 * kRadians * 1000 * kEarthRadiusKm);
  EXPECT_NEAR(storm->vorticity, peak, 0.25 * peak);  // differences over 2 degrees of a vortex of 1.5
  EXPECT_NEAR(storm->pressure_rise, 3000 * (1 - std::exp(-25.0 / 8)), 50);
  EXPECT_NEAR(storm->core_warmth, 5 * (1 - std::exp(-25.0 / 8)), 0.1);
  EXPECT_NEAR(storm->wind, 45, 3);
  EXPECT_NEAR(storm->radius, 3.2, 0.5);  // there 45 s exp((1 - s^2) / 2) is 17.5
}

TEST(Cyclones, EachCriterionRefuses) {
  EXPECT_EQ(found(calm_with({{}})), 1);
  EXPECT_EQ(found(calm_with({{.wind = -45}})), 0);   // turns the wrong way
  EXPECT_EQ(found(calm_with({{.warmth = -5}})), 0);  // cold core
  EXPECT_EQ(found(calm_with({{.warmth = 0.7}})), 0);
  EXPECT_EQ(found(calm_with({{.warmth = 0.7}}), cyclone_set("relaxed")), 1);
  EXPECT_EQ(found(calm_with({{.depth = 380}})), 0);
  EXPECT_EQ(found(calm_with({{.depth = 380}}), cyclone_set("medium")), 1);
  EXPECT_EQ(found(calm_with({{.wind = 12}})), 0);
  EXPECT_EQ(found(calm_with({{.wind = 12}}), cyclone_set("super_relaxed")), 0);  // a gale is asked for everywhere
  EXPECT_EQ(found(calm_with({{.centre = {55, 100}}})), 0);
  CycloneOptions strong;
  strong.min_vorticity = 1e-3;
  EXPECT_EQ(found(calm_with({{}}), strong), 0);
  EXPECT_THROW(cyclone_set("strict"), Error);
}

TEST(Labels, StormsOverrideRiversAndHaveBoxes) {
  Frame frame = calm_with({{.centre = {30, 359}, .wind = 60}});
  for (std::size_t y = 115; y <= 150; ++y) {  // a river through the storm, from 25 to 60 degrees north
    for (std::size_t x = 356; x < 360; ++x) plane(frame, kTmq)[y * 360 + x] = 70;
  }
  label_frame(frame, {});
  ASSERT_EQ(frame.labels.size(), 181U * 360U);
  std::int64_t counts[3] = {};
  for (const std::uint8_t label : frame.labels) ++counts[label];
  EXPECT_GT(counts[1], 20);
  EXPECT_LT(counts[1], 400);
  EXPECT_GT(counts[2], 80);
  ASSERT_EQ(frame.boxes.size(), 2U);
  EXPECT_EQ(frame.boxes[0].kind, kRiverBox);
  EXPECT_EQ(frame.boxes[0].ymax, 151);
  EXPECT_EQ(frame.boxes[1].kind, kCycloneBox);
  const Box& box = frame.boxes[1];
  for (std::size_t i = 0; i < frame.labels.size(); ++i) {
    if (frame.labels[i] != 1) continue;
    const auto y = static_cast<float>(i / 360), x = static_cast<float>(i % 360);
    EXPECT_TRUE(box.ymin <= y && y + 1 <= box.ymax && ((box.xmin <= x && x + 1 <= box.xmax) || x + 361 <= box.xmax));
    EXPECT_LE(std::abs(turn_degrees(359, frame.grid.longitude[i % 360])), 12);
  }
}

TEST(Labels, MasksAreTheLargestRegionsAboveThePercentile) {
  const Frame frame = calm_with({{.moisture = 0}});
  CycloneCandidate storm;
  storm.centre = {18, 200};
  storm.radius = 1.4;
  const auto pixels =
      cyclone_pixels(frame, storm, {});  // box of 17 x 17; 20 pixels of it are above the 93rd percentile
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(frame.pixels()));
  for (const std::int64_t at : pixels) mask[static_cast<std::size_t>(at)] = 1;
  EXPECT_EQ(find_components(mask, 360, {.diagonal = true}).size(), 1U);
  EXPECT_TRUE(mask[static_cast<std::size_t>((90 + 18) * 360 + 200)]);  // rain
  EXPECT_TRUE(mask[static_cast<std::size_t>((90 + 16) * 360 + 200)]);  // westerlies south of the centre
  EXPECT_TRUE(mask[static_cast<std::size_t>((90 + 18) * 360 + 202)]);  // southerlies east of it
  EXPECT_FALSE(mask[static_cast<std::size_t>((90 + 20) * 360 + 198)]);
  EXPECT_NEAR(static_cast<double>(pixels.size()), 45, 12);
}

}  // namespace
}  // namespace petaflow::climate
