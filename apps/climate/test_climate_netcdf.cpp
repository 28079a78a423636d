// netCDF files: ClimateNet's layout, packed and turned fields of CF, real files where they are there, and refusals.
#include <netcdf.h>

#include <array>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "climate/cf_grid.hpp"
#include "climate/climate_data.hpp"
#include "climate/frame_file.hpp"
#include "climate_frames.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate {
namespace fs = std::filesystem;
namespace {

using test::error_of;
using test::made_frame;

constexpr std::int64_t kHeight = 5, kWidth = 8, kPixels = kHeight * kWidth;

/// A netCDF file that a test fills.
class Writer {
 public:
  explicit Writer(const std::string& path, int mode = NC_NETCDF4) {
    require(nc_create(path.c_str(), NC_CLOBBER | mode, &id_));
  }
  ~Writer() { nc_close(id_); }
  int dimension(const char* name, std::int64_t size) {
    int id = 0;
    require(nc_def_dim(id_, name, static_cast<std::size_t>(size), &id));
    return id;
  }
  int variable(const char* name, nc_type type, const std::vector<int>& dimensions) {
    int id = 0;
    require(nc_def_var(id_, name, type, static_cast<int>(dimensions.size()), dimensions.data(), &id));
    return id;
  }
  void text(int variable, const char* name, const std::string& value) {
    require(nc_put_att_text(id_, variable, name, value.size(), value.c_str()));
  }
  void number(int variable, const char* name, nc_type type, double value) {
    require(nc_put_att_double(id_, variable, name, type, 1, &value));
  }
  void numbers(int variable, const char* name, const std::vector<double>& values) {
    require(nc_put_att_double(id_, variable, name, NC_FLOAT, values.size(), values.data()));
  }
  void data(int variable, const std::vector<double>& values) {
    nc_enddef(id_);
    require(nc_put_var_double(id_, variable, values.data()));
  }
  void data(int variable, const std::vector<float>& values) {
    nc_enddef(id_);
    require(nc_put_var_float(id_, variable, values.data()));
  }
  /// So many records of so many numbers.
  void records(int variable, std::size_t count, std::size_t size) {
    nc_enddef(id_);
    const std::vector<short> values(count * size, 5);
    const std::array<std::size_t, 3> first{}, box = {count, 3, size / 3};
    require(nc_put_vara_short(id_, variable, first.data(), box.data(), values.data()));
    nc_redef(id_);
  }
  void strings(int variable, std::vector<const char*> values) {
    require(nc_put_var_string(id_, variable, values.data()));
  }
  /// Dimensions lat and lon with their coordinates.
  std::vector<int> grid(const std::vector<double>& lat, const std::vector<double>& lon) {
    const int y = dimension("lat", std::ssize(lat)), x = dimension("lon", std::ssize(lon));
    const int latitude = variable("lat", NC_DOUBLE, {y}), longitude = variable("lon", NC_DOUBLE, {x});
    text(latitude, "units", "degrees_north");
    text(longitude, "units", "degrees_east");
    data(latitude, lat);
    data(longitude, lon);
    nc_redef(id_);
    return {y, x};
  }

 private:
  static void require(int status) { ASSERT_EQ(status, NC_NOERR) << nc_strerror(status); }
  int id_ = -1;
};

class ClimateNetcdf : public ::testing::Test {
 protected:
  std::string path(const std::string& name = "data-1996-06-05-02-1.nc") const { return folder_ / name; }
  std::string refusal() const {
    return error_of([&] { read_frame(*open_frames(path())); });
  }

  const test::ScratchFolder folder_;
  const Frame frame_ = made_frame(kHeight, kWidth, 1);
};

TEST_F(ClimateNetcdf, ClimateNetIsReadAsItIsPublished) {
  {
    Writer file(path());
    const auto grid = file.grid(frame_.grid.latitude, frame_.grid.longitude);
    const int time = file.dimension("time", 1);
    file.strings(file.variable("time", NC_STRING, {time}), {"data-2010-02-03-04-1.nc"});
    for (std::size_t f = 0; f < kFields.size(); ++f) {
      const int variable = file.variable(kFields[f].name.data(), NC_FLOAT, {time, grid[0], grid[1]});
      const auto first = frame_.fields.begin() + static_cast<std::int64_t>(f) * kPixels;
      file.data(variable, std::vector<float>(first, first + kPixels));
    }
    file.data(file.variable("LABELS", NC_INT64, grid), std::vector<double>(frame_.labels.begin(), frame_.labels.end()));
  }
  const auto file = open_frames(path());
  EXPECT_EQ(file->format(), "climatenet");
  const Frame read = read_frame(*file);
  EXPECT_EQ(read.grid, frame_.grid);
  EXPECT_EQ(read.fields, frame_.fields);
  EXPECT_EQ(read.labels, frame_.labels);
  EXPECT_EQ(read.time, "2010-02-03T12:00:00");
}

/// Longitudes from -180, latitudes from north, shorts with gaps, two moments, a name of its own, netCDF 3.
TEST_F(ClimateNetcdf, FieldsAreUnpackedAndTurned) {
  {
    Writer file(path(), 0);
    const int time = file.dimension("time", 2), level = file.dimension("level", 1);
    const auto grid = file.grid({60, 0, -60}, {-180, -90, 0, 90});
    const int when = file.variable("time", NC_INT, {time});
    file.text(when, "units", "hours since 2000-01-01");
    file.text(when, "calendar", "noleap");
    const int variable = file.variable("msl", NC_SHORT, {time, level, grid[0], grid[1]});
    file.number(variable, "scale_factor", NC_DOUBLE, 0.5);
    file.number(variable, "add_offset", NC_DOUBLE, 100000);
    file.number(variable, "_FillValue", NC_SHORT, -32767);
    file.data(when, std::vector<double>{0, 24 * 59});
    std::vector<double> values;
    for (int i = 0; i < 24; ++i) values.push_back(i == 13 ? -32767 : i);
    file.data(variable, values);
  }
  const auto file = open_frames(path(), {.variable_names = {"PSL=msl"}});
  EXPECT_EQ(file->format(), "cf");
  EXPECT_EQ(file->frames(), 2);
  EXPECT_EQ(file->grid(), (Grid{{-60, 0, 60}, {0, 90, 180, 270}}));
  EXPECT_EQ(file->time(1), "2000-03-01T00:00:00");
  RawFields raw;
  file->read_fields(1, std::array<int, 1>{kPsl}, raw);
  const std::vector<int> expected = {22, 23, 20, 21, 18, 19, 16, 17, 14, 15, 12, -1};
  for (std::size_t p = 0; p < 12; ++p) {
    if (expected[p] < 0) {
      EXPECT_TRUE(std::isnan(raw.values[p]));
    } else {
      EXPECT_EQ(raw.values[p], 100000 + 0.5F * static_cast<float>(expected[p]));
    }
  }
  EXPECT_HOLDS(error_of([&] { file->read_fields(0, std::array<int, 1>{kTs}, raw); }),
               "has no variable TS; it has lat, lon, time, msl; data.variable_names");
  EXPECT_HOLDS(error_of([&] { file->read_fields(2, std::array<int, 1>{kPsl}, raw); }), "has no frame 2; it has 2");
}

TEST_F(ClimateNetcdf, WhatDoesNotFitIsRefused) {
  const auto written = [&](const std::vector<double>& lat, const std::vector<double>& lon,
                           const std::function<void(Writer&, const std::vector<int>&)>& more) {
    Writer file(path());
    const auto grid = file.grid(lat, lon);
    more(file, grid);
  };
  const std::vector<double> lat = {-60, 0, 60}, lon = {0, 90, 180, 270};
  const auto field = [](Writer& file, const std::vector<int>& grid) { file.variable("TS", NC_FLOAT, grid); };
  written(lat, lon, [](Writer&, const std::vector<int>&) {});
  EXPECT_HOLDS(refusal(), "none of the variables TMQ, U850");
  EXPECT_HOLDS(refusal(), "it has lat, lon");
  written(lat, lon, field);
  EXPECT_HOLDS(refusal(), "has no variable TMQ; it has lat, lon, TS; data.variable_names = [\"TMQ=NAME\"]");
  EXPECT_HOLDS(error_of([&] { open_frames(path(), {.variable_names = {"SST=TS"}}); }), "no variable \"SST\"");
  EXPECT_HOLDS(error_of([&] { open_frames(path(), {.variable_names = {"TS"}}); }), "such as TMQ=IWV");
  written(lat, {0, 10, 20, 30}, field);
  EXPECT_HOLDS(refusal(), "the longitudes lon from 0 to 30 do not go round the Earth");
  written(lat, {0, 120, 240, 360}, field);
  EXPECT_HOLDS(refusal(), "the coordinates lon from 0 to 360 do not run in one direction without repeating");
  written({-60, 60, 0}, lon, field);
  EXPECT_HOLDS(refusal(), "the coordinates lat from -60 to 0 do not run");
  written(lat, lon,
          [](Writer& file, const std::vector<int>& grid) { file.variable("TS", NC_FLOAT, {grid[1], grid[0]}); });
  EXPECT_HOLDS(refusal(), "lon of TS has the units \"degrees_east\"; degrees of latitude were expected");
  written(lat, lon, [](Writer& file, const std::vector<int>& grid) { file.variable("TS", NC_FLOAT, {grid[1]}); });
  EXPECT_HOLDS(refusal(), "TS (lon = 4) is no field");
  written(lat, lon, [](Writer& file, const std::vector<int>& grid) {
    file.variable("TS", NC_FLOAT, grid);
    file.variable("PSL", NC_FLOAT, {file.dimension("y", 3), grid[1]});
  });
  EXPECT_HOLDS(refusal(), "y of PSL has no coordinates");
  written(lat, lon, [](Writer& file, const std::vector<int>& grid) {
    file.variable("TS", NC_FLOAT, grid);
    const int y = file.dimension("lat2", 3), other = file.variable("lat2", NC_DOUBLE, {y});
    file.variable("PSL", NC_FLOAT, {y, grid[1]});
    file.data(other, std::vector<double>{-60, 1, 60});
  });
  EXPECT_HOLDS(refusal(), "PSL (lat2 = 3, lon = 4) and TS (lat = 3, lon = 4) have different coordinates");
  written(lat, lon, [](Writer& file, const std::vector<int>& grid) {
    const int time = file.dimension("time", 1), when = file.variable("time", NC_DOUBLE, {time});
    file.text(when, "units", "days since 2000-01-01");
    file.text(when, "calendar", "lunar");
    file.variable("TS", NC_FLOAT, {time, grid[0], grid[1]});
  });
  EXPECT_HOLDS(refusal(), "data-1996-06-05-02-1.nc: time has the calendar \"lunar\"");
  test::write_bytes(path(), "no file of data");
  EXPECT_HOLDS(refusal(), "is not a readable netCDF file");
}

/// The library itself reads zeros behind the end of a file of netCDF 3.
TEST_F(ClimateNetcdf, TruncatedFilesAreRefusedInAllFormats) {
  const std::string whole = path(), cut = path("cut.nc");
  const auto expect_seen = [&](int format, std::size_t record_variables) {
    {
      Writer file(whole, format);
      const auto grid = file.grid({-60, 0, 60}, {0, 90, 180, 270, 300});
      file.text(NC_GLOBAL, "history", "made");
      const int time = file.dimension("time", NC_UNLIMITED);
      for (std::size_t i = 0; i < record_variables; ++i) {
        const int packed = file.variable(i == 0 ? "TS" : "PSL", NC_SHORT, {time, grid[0], grid[1]});
        file.number(packed, "scale_factor", NC_DOUBLE, 0.5);
        file.records(packed, 3, 15);
      }
      if (record_variables == 0) file.data(file.variable("TS", NC_SHORT, grid), std::vector<double>(15, 2));
    }
    const NetcdfFile opened(whole);
    const auto bytes = fs::file_size(whole);
    for (const std::uintmax_t left : {bytes - 4, bytes - 40}) {
      fs::copy_file(whole, cut, fs::copy_options::overwrite_existing);
      fs::resize_file(cut, left);
      const std::string error = error_of([&] { NetcdfFile{cut}; });
      EXPECT_HOLDS(error, format == NC_NETCDF4 ? "is not a readable netCDF file" : "is truncated: it has ");
    }
  };
  for (const int format : {0, NC_64BIT_OFFSET, NC_64BIT_DATA, NC_NETCDF4}) {
    for (const std::size_t records : {0, 1, 2}) expect_seen(format, records);
  }
}

/// The files of a set have their pixels at the same places.
TEST_F(ClimateNetcdf, FilesOfASetHaveOneGrid) {
  const std::vector<std::string> files = {path("a.nc"), path("b.nc"), path("c.nc")};
  const auto write = [&](std::size_t i, double latitude, double longitude) {
    Writer file(files[i]);
    const auto grid = file.grid({-60, 0, latitude}, {longitude, longitude + 90, longitude + 180, longitude + 270});
    file.data(file.variable("TS", NC_FLOAT, grid), std::vector<double>(12, 280));
  };
  write(0, 60, 0);
  write(1, 60.00001, 0);
  write(2, 61, 0);
  ClimateDataOptions options;
  options.channels = {"TS"};
  options.height = 3;
  options.width = 4;
  options.normalise = Normalise::kNone;
  options.targets_optional = true;
  const ClimateData data(options, scan_climate(options, files));
  const SampleStorage sample(data);
  EXPECT_EQ(data.read(1, sample.bytes()), 0);
  EXPECT_EQ(sample.input<float>()[5], 280);
  const auto refusal_of_last = [&] {
    return error_of([&] { check_samples(ClimateData(options, scan_climate(options, files)), {2, 3}); });
  };
  EXPECT_HOLDS(refusal_of_last(), "c.nc: latitude 2 is 61, but 60 in " + files[0]);
  write(2, 60, 10);
  EXPECT_HOLDS(refusal_of_last(), "c.nc: longitude 0 is 10, but 0 in " + files[0]);
  {
    Writer file(files[2]);
    const int time = file.dimension("time", 2);
    const auto grid = file.grid({-60, 0, 60}, {0, 90, 180, 270});
    file.data(file.variable("TS", NC_FLOAT, {time, grid[0], grid[1]}), std::vector<double>(24, 280));
  }
  EXPECT_HOLDS(refusal_of_last(), "c.nc has 2 frames, but " + files[0] + " has one");
}

TEST_F(ClimateNetcdf, LabelsHaveTheGridOfTheirFile) {
  const auto write = [&](const std::string& name, const char* variable, double latitude) {
    Writer file(name);
    const auto grid = file.grid({-60, 0, latitude}, {0, 90, 180, 270});
    file.data(file.variable(variable, NC_FLOAT, grid), std::vector<double>(12, 1));
  };
  write(path("a.nc"), "TS", 60);
  fs::create_directory(path("labels"));
  write(path("labels/a-labels.nc"), kLabelTags, 60);
  EXPECT_EQ(open_frames(path("a.nc"), {.labels = path("labels")})->read_labels(0), std::vector<std::uint8_t>(12, 1));
  write(path("labels/a-labels.nc"), kLabelTags, 61);
  EXPECT_HOLDS(error_of([&] { open_frames(path("a.nc"), {.labels = path("labels")}); }),
               "a-labels.nc: latitude 2 is 61, but 60 in " + path("a.nc") + ": these are labels of another file");
}

TEST_F(ClimateNetcdf, WhatIsOutOfTheValidRangeIsAGap) {
  {
    Writer file(path());
    const auto grid = file.grid({-60, 0, 60}, {0, 90, 180, 270});
    const int field = file.variable("TS", NC_FLOAT, grid);
    file.numbers(field, "valid_range", {200, 300});
    file.numbers(field, "missing_value", {250, 251});
    file.data(field, std::vector<double>{200, 199, 300, 301, 250, 251, 252, 253, 254, 255, 256, 257});
  }
  const std::vector<double> values = NetcdfFile(path()).read("TS");
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(std::isnan(values[i]), i == 1 || i == 3 || i == 4 || i == 5) << i;
}

TEST_F(ClimateNetcdf, SaysWhatIsNoFile) {
  fs::create_directory(path("folder"));
  test::write_bytes(path("nothing.nc"), "");
  EXPECT_HOLDS(error_of([&] { open_frames(path("folder")); }), "folder is a folder; name the files in it, such as ");
  EXPECT_HOLDS(error_of([&] { open_frames(path("nothing.nc")); }), "nothing.nc is empty");
}

/// MERRA-2, 2017-02-28: 361 x 576 from -180.
TEST(ClimateSamples, MerraIsReadAndTurned) {
  const auto path = test::samples_folder() / "climate/IWV_IVT_MERRA_20170228_00.nc";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no sample " << path;
  const CfVariables fields(path.string(), {"IWV", "IVT"});
  EXPECT_EQ(fields.frames(), 1);
  EXPECT_EQ(fields.time(0), "2017-02-28T00:00:00");
  ASSERT_EQ(fields.grid().height(), 361);
  ASSERT_EQ(fields.grid().width(), 576);
  EXPECT_EQ(fields.grid().latitude.front(), -90);
  EXPECT_EQ(fields.grid().longitude.front(), 0);
  EXPECT_NEAR(fields.grid().longitude.back(), 359.375, 1e-9);
  std::vector<float> water(361 * 576);
  fields.read(0, 0, water);  // values as netCDF4-Python reads them at (40, -125), (-30, 0), (0, -0.625)
  EXPECT_EQ(water[260 * 576 + 376], 11.047516F);
  EXPECT_EQ(water[120 * 576], 16.805593F);
  EXPECT_EQ(water[180 * 576 + 575], 44.460907F);
  EXPECT_EQ(std::ranges::max(water), 72.03451F);
}

/// ECMWF, 4 moments of 451 x 900 from north, packed.
TEST(ClimateSamples, EcmwfIsUnpacked) {
  const auto path = test::samples_folder() / "climate/ecmwf_mslp_20220817.nc";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no sample " << path;
  const auto file = open_frames(path.string(), {.variable_names = {"PSL=msl"}});
  EXPECT_EQ(file->frames(), 4);
  EXPECT_EQ(file->time(0), "2022-08-17T00:00:00");
  EXPECT_EQ(file->time(2), "2022-08-18T12:00:00");
  EXPECT_EQ(file->grid().latitude.front(), -90);
  EXPECT_EQ(file->grid().longitude.back(), 359.6F);
  RawFields raw;
  const auto value = [&](std::int64_t frame, std::size_t row, std::size_t column) {
    file->read_fields(frame, std::array<int, 1>{kPsl}, raw);
    return raw.values[row * 900 + column];
  };
  EXPECT_NEAR(value(3, 350, 200), 101667.72492, 0.01);  // as netCDF4-Python unpacks them
  EXPECT_NEAR(value(0, 0, 0), 100467.89090, 0.01);
  EXPECT_NEAR(value(1, 450, 899), 101735.69706, 0.01);
}

}  // namespace
}  // namespace petaflow::climate
