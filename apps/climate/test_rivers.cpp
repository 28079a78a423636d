// Atmospheric rivers: the threshold rule pixel by pixel, sizes, seams, and the transport.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "base/random.hpp"
#include "climate/cf_grid.hpp"
#include "climate/percentile.hpp"
#include "climate/plane.hpp"
#include "climate/rivers.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate {
namespace {

/// Water on a grid of 2 degrees, set by rectangles of (south, west, north, east) in degrees; 10 kg/m2 elsewhere.
struct Sky {
  Grid grid = cam5_grid(91, 180);
  std::vector<float> water = std::vector<float>(91 * 180, 10.0F);

  Sky& wet(double south, double west, double north, double east, float value = 50) {
    for (std::size_t y = 0; y < 91; ++y) {
      for (std::size_t x = 0; x < 180; ++x) {
        const double lat = grid.latitude[y], lon = grid.longitude[x];
        if (south <= lat && lat <= north && west <= lon && lon <= east) water[y * 180 + x] = value;
      }
    }
    return *this;
  }
  std::int64_t rivers(const RiverOptions& options = {}) const {
    const auto mask = find_rivers(grid, water, options);
    return std::count(mask.begin(), mask.end(), 1);
  }
};

TEST(Rivers, CandidatesObeyTheRuleInEveryPixel) {
  const Grid grid = cam5_grid(19, 36);
  std::vector<float> water(19 * 36);
  RandomSequence random(random_stream(3, RandomPurpose::kGenerate), 0);
  for (float& value : water) value = static_cast<float>(60 * random.uniform());
  const auto mask = river_candidates(grid, water, {.threshold = 21});
  for (std::size_t i = 0; i < water.size(); ++i) {
    const double latitude = -90 + 10.0 * static_cast<double>(i / 36);
    const double rest = water[i] * (1 - std::exp(-latitude * latitude / (2 * 19 * 19))) - 21;
    EXPECT_EQ(mask[i], rest > 0) << latitude;
  }
}

TEST(Rivers, LongAndNarrowStaysRoundAndShortGoes) {
  EXPECT_EQ(Sky().wet(30, 100, 50, 106).rivers(), 11 * 4);  // 2224 km from south to north, 500 km wide
  EXPECT_EQ(Sky().wet(30, 100, 50, 130).rivers(), 0);       // 2100 km wide
  EXPECT_EQ(Sky().wet(40, 100, 48, 104).rivers(), 0);       // diagonal of 950 km
  EXPECT_EQ(Sky().wet(40, 100, 40, 150).rivers(), 0);       // one row high: no extent from south to north
  EXPECT_EQ(Sky().wet(-4, 100, 4, 104).rivers(), 0);        // damped near the equator
  EXPECT_EQ(Sky().wet(30, 100, 50, 106).rivers({.min_length_km = 2500}), 0);
  EXPECT_EQ(Sky().wet(30, 100, 50, 130).rivers({.max_width_km = 3000}), 11 * 16);
  EXPECT_EQ(Sky().wet(30, 100, 50, 106, 25).rivers(), 0);  // 25 is 17.8 at 30 degrees and 24.2 at 50
}

TEST(Rivers, TheSeamDividesUnlessWrapIsAsked) {
  Sky sky;  // a staircase from 350 degrees to 10 degrees east; each half is shorter than 1500 km
  sky.wet(34, 350, 38, 354).wet(38, 354, 42, 358).wet(42, 0, 46, 4).wet(46, 4, 50, 8);
  EXPECT_EQ(sky.rivers(), 0);
  sky.wet(42, 358, 42, 358);
  EXPECT_EQ(sky.rivers(), 0);
  EXPECT_GT(sky.rivers({.connectivity = {.wrap = true}}), 30);
}

TEST(Rivers, DiagonalNeighboursJoinOnlyWhenAsked) {
  Sky sky;
  for (int i = 0; i < 10; ++i) sky.wet(30 + 2 * i, 100 + 2 * i, 30 + 2 * i, 100 + 2 * i);
  EXPECT_EQ(sky.rivers(), 0);
  EXPECT_EQ(sky.rivers({.connectivity = {.diagonal = true}}), 10);
}

TEST(Rivers, TransportIsWindTimesHumidityOfTheColumn) {
  Frame frame;
  frame.grid = cam5_grid(19, 36);
  frame.fields.resize(16 * 19 * 36);
  plane(frame, kU850)[100] = 15, plane(frame, kV850)[100] = -20, plane(frame, kQrefht)[100] = 0.01F;
  const auto transport = vapour_transport(frame);
  EXPECT_NEAR(transport[100], 2550 * 0.01 * 25, 1e-2);
  EXPECT_EQ(transport[99], 0);
}

/// MERRA-2 on 2017-02-28, a river on California: each pixel of the threshold rule, and each component by its own sizes.
TEST(Rivers, OfMerraAreThePixelsOfTheRule) {
  const auto path = test::samples_folder() / "climate/IWV_IVT_MERRA_20170228_00.nc";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no sample " << path;
  const CfVariables fields(path.string(), {"IWV"});
  const Grid& grid = fields.grid();
  const std::size_t width = static_cast<std::size_t>(grid.width());
  std::vector<float> water(width * grid.latitude.size());
  fields.read(0, 0, water);
  constexpr double kPi = 3.14159265358979;
  for (const double threshold : {24.0, 21.0}) {
    const RiverOptions options{.threshold = threshold};
    const auto candidates = river_candidates(grid, water, options), rivers = find_rivers(grid, water, options);
    std::vector<std::uint8_t> rule(water.size());
    for (std::size_t i = 0; i < rule.size(); ++i) {
      const double latitude = grid.latitude[i / width];
      rule[i] = static_cast<double>(water[i]) * (1 - std::exp(-latitude * latitude / (2.0 * 19 * 19))) > threshold;
    }
    EXPECT_EQ(candidates, rule);
    std::int64_t kept = 0, dropped = 0;
    for (const Component& part : find_components(rule, static_cast<std::int64_t>(width), {})) {
      const double south = grid.latitude[static_cast<std::size_t>(part.ymin)] * kPi / 180;
      const double north = grid.latitude[static_cast<std::size_t>(part.ymax)] * kPi / 180;
      const double wide = static_cast<double>(part.xmax - part.xmin) * 2 * kPi / static_cast<double>(width);
      const double cosine = std::sin(south) * std::sin(north) + std::cos(south) * std::cos(north) * std::cos(wide);
      const double diagonal = 6371 * std::acos(std::clamp(cosine, -1.0, 1.0)), length = 6371 * (north - south);
      double area = 0;
      for (const std::int64_t at : part.pixels) {
        const double latitude = grid.latitude[static_cast<std::size_t>(at) / width] * kPi / 180;
        area += 6371 * 6371 * std::cos(latitude) * (kPi / 360) *
                (2 * kPi / static_cast<double>(width));  // rows of 0.5 degrees
      }
      const bool is_river = diagonal > 1500 && length > 0 && area / length < 1000;
      (is_river ? kept : dropped) += 1;
      for (const std::int64_t at : part.pixels) EXPECT_EQ(rivers[static_cast<std::size_t>(at)], is_river);
    }
    fmt::print("{} kg/m2: {} rivers of {} components, {} of {} pixels\n", threshold, kept, kept + dropped,
               std::count(rivers.begin(), rivers.end(), 1), std::count(rule.begin(), rule.end(), 1));
    EXPECT_GT(kept, 0);
    EXPECT_GT(dropped, 0);
    for (std::size_t i = 0; i < rule.size(); ++i) ASSERT_LE(rivers[i], rule[i]);
  }
}

TEST(Rivers, PercentileMarksItsShareOfTheDampedField) {
  const Grid grid = cam5_grid(96, 144);
  std::vector<float> field(96 * 144);
  RandomSequence random(random_stream(4, RandomPurpose::kGenerate), 0);
  for (float& value : field) value = static_cast<float>(random.exponential());
  const auto mask = river_candidates(grid, field, RiverOptions::transport());
  EXPECT_NEAR(static_cast<double>(std::count(mask.begin(), mask.end(), 1)), 0.06 * 96 * 144, 1);
}

TEST(Percentile, IsLinearBetweenNeighbours) {
  const std::vector<double> values = {40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(percentile<double>(values, 0), 10);
  EXPECT_DOUBLE_EQ(percentile<double>(values, 100), 40);
  EXPECT_DOUBLE_EQ(percentile<double>(values, 50), 25);
  EXPECT_DOUBLE_EQ(percentile<double>(values, 93), 37.9);
}

}  // namespace
}  // namespace petaflow::climate
