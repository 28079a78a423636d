// Names of variables, the grid of CAM5, and distances on the Earth.
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "climate/frame.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate {
namespace {

using test::error_of;

TEST(ClimateFields, HaveThePlacesOfDeepCam) {
  const std::array<std::string_view, 16> order = {"TMQ",  "U850", "V850",  "UBOT", "VBOT",   "QREFHT", "PS",   "PSL",
                                                  "T200", "T500", "PRECT", "TS",   "TREFHT", "Z1000",  "Z200", "ZBOT"};
  for (int i = 0; i < 16; ++i) EXPECT_EQ(field_index(order[static_cast<std::size_t>(i)]), i);
  EXPECT_EQ(field_index("PSL"), kPsl);
  EXPECT_EQ(field_index("PRECT"), kPrect);
  EXPECT_EQ(field_index("ZBOT"), kZbot);
}

TEST(ClimateFields, AMistypedNameIsToldTheNearestOne) {
  EXPECT_HOLDS(error_of([] { field_index("U580"); }), "did you mean U850?");
  EXPECT_HOLDS(error_of([] { field_index("psl"); }), "did you mean PSL?");
  const std::string far = error_of([] { field_index("cloud_cover"); });
  EXPECT_HOLDS(far, "the variables are TMQ, U850");
  EXPECT_EQ(far.find("did you mean"), std::string::npos);
}

TEST(ClimateGrid, IsThatOfCam5) {
  const Grid grid = cam5_grid(768, 1152);
  ASSERT_EQ(grid.height(), 768);
  ASSERT_EQ(grid.width(), 1152);
  EXPECT_EQ(grid.latitude.front(), -90);
  EXPECT_EQ(grid.latitude.back(), 90);
  EXPECT_NEAR(grid.latitude[1], -90 + 180.0 / 767, 1e-12);
  EXPECT_EQ(grid.longitude.front(), 0);
  EXPECT_EQ(grid.longitude.back(), 359.6875);
  for (std::size_t row = 0; row < 768; ++row) EXPECT_EQ(grid.latitude[row], -grid.latitude[767 - row]);
  EXPECT_HOLDS(error_of([] { cam5_grid(1, 8); }), "1 x 8");
}

/// Against the chord between the two points in space.
TEST(ClimateGrid, DistancesAreThoseOnASphere) {
  const auto point = [](double lat, double lon) {
    const double a = lat * std::numbers::pi / 180, b = lon * std::numbers::pi / 180;
    return std::array{std::cos(a) * std::cos(b), std::cos(a) * std::sin(b), std::sin(a)};
  };
  const std::array<std::array<double, 4>, 5> pairs = {
      {{12, 359, -35, 20}, {48, 10, 51, 250}, {-89, 0, 90, 77}, {0, 0, 0, 180}, {5, 350, 5.25, 350.3}}};
  for (const auto& [lat1, lon1, lat2, lon2] : pairs) {
    const auto a = point(lat1, lon1), b = point(lat2, lon2);
    const double chord = std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
    EXPECT_NEAR(distance_km(lat1, lon1, lat2, lon2), 2 * 6371 * std::asin(std::min(1.0, chord / 2)), 1e-5);
  }
  EXPECT_NEAR(distance_km(0, 0, 1, 0), 6371 * std::numbers::pi / 180, 1e-9);
  EXPECT_EQ(distance_km(30, 40, 30, 40), 0);
}

}  // namespace
}  // namespace petaflow::climate
