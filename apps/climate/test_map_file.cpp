// Maps in netCDF files: what is written is read back, with the attributes that CF asks for.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "climate/map_file.hpp"
#include "climate/netcdf.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate {
namespace {

using test::error_of;

TEST(MapFile, HoldsMapsWithCoordinatesTimesAndFlags) {
  const test::ScratchFolder folder;
  const std::string path = folder / "maps.nc";
  const Grid grid = cam5_grid(3, 4);
  std::vector<std::uint8_t> classes = {0, 1, 2, 0, 0, 0, 1, 1, 2, 2, 0, 0};
  std::vector<float> probabilities;
  for (std::size_t p = 0; p < 12; ++p) {
    for (int c = 0; c < 3; ++c) probabilities.push_back(static_cast<float>(p) / 12 + 100.0F * static_cast<float>(c));
  }
  MapFile file(path, grid, "standard", true);
  file.append("1900-01-02T06:00:00", "a.h5", classes, probabilities);
  std::swap(classes[0], classes[2]);
  file.append("1979-01-31T03:00:00", "b.h5", classes, probabilities);
  file.close({{"run", "runs/a"}});

  const NetcdfFile read(path);
  const std::vector<NetcdfDimension> dims = read.dimensions("tag");
  EXPECT_EQ(dims, (std::vector<NetcdfDimension>{{"time", 2}, {"lat", 3}, {"lon", 4}}));
  EXPECT_EQ(read.read("lat"), grid.latitude);
  EXPECT_EQ(read.read("lon"), grid.longitude);
  EXPECT_EQ(read.read("time"), (std::vector<double>{30, 24.0 * 28884 + 3}));
  const std::vector<double> tags = read.read("tag");
  EXPECT_EQ(tags[0], 0);
  EXPECT_EQ(tags[12], 2);
  for (std::size_t p = 0; p < 12; ++p) EXPECT_EQ(tags[12 + p], classes[p]);
  const std::vector<double> rivers = read.read("probability_ar");
  for (std::size_t p = 0; p < 12; ++p) EXPECT_NEAR(rivers[p], static_cast<double>(p) / 12 + 200, 1e-4);
  EXPECT_FALSE(read.has("probability_background"));
  EXPECT_EQ(read.text_attribute("lat", "units"), "degrees_north");
  EXPECT_EQ(read.text_attribute("lon", "units"), "degrees_east");
  EXPECT_EQ(read.text_attribute("time", "units"), "hours since 1900-01-01 00:00:00");
  EXPECT_EQ(read.text_attribute("tag", "flag_meanings"), "background tropical_cyclone atmospheric_river");
}

TEST(MapFile, CountsFramesWhereNoMomentIsKnown) {
  const test::ScratchFolder folder;
  const std::string path = folder / "maps.nc";
  MapFile file(path, cam5_grid(2, 2), "standard", false);
  file.append("", "a.h5", std::vector<std::uint8_t>{0, 1, 0, 0});
  EXPECT_HOLDS(error_of([&] { file.append("1979-01-31T03:00:00", "b.h5", std::vector<std::uint8_t>{0, 1, 0, 0}); }),
               "b.h5 says when a frame was, but frames before it have no moment");
  file.close({});
  const NetcdfFile read(path);
  EXPECT_EQ(read.dimensions("tag").front().name, "frame");
  EXPECT_FALSE(read.has("time"));
}

TEST(MapFile, KeepsTheCalendarOfTheFrames) {
  const test::ScratchFolder folder;
  const std::string path = folder / "maps.nc";
  const std::vector<std::uint8_t> classes = {0, 1, 0, 0};
  MapFile file(path, cam5_grid(2, 2), "360_day", false);
  file.append("1900-02-30T12:00:00", "a.nc", classes);
  for (const char* time : {"1979-02-31T00:00:00", "1979-01-30", "soon", "1979-01-30T25:00:00"}) {
    EXPECT_EQ(error_of([&] { file.append(time, "b.nc", classes); }),
              fmt::format("b.nc: {} is no moment of the calendar 360_day", time));
  }
  file.close({});
  const NetcdfFile read(path);
  EXPECT_EQ(read.read("time"), (std::vector<double>{24.0 * 59 + 12}));
  EXPECT_EQ(read.text_attribute("time", "calendar"), "360_day");
}

}  // namespace
}  // namespace petaflow::climate
