#include "climate/map_file.hpp"

#include <netcdf.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "climate/frame_file.hpp"
#include "io/hdf5.hpp"

namespace petaflow::climate {
namespace {

using Texts = std::map<std::string, std::string>;

constexpr std::array<const char*, kTagNames.size()> kTagMeanings = {"background", "tropical_cyclone",
                                                                    "atmospheric_river"};

constexpr const char* kTimeUnits = "hours since 1900-01-01 00:00:00";

}  // namespace

MapFile::MapFile(std::string path, const Grid& grid, const std::string& calendar, bool probabilities)
    : path_(std::move(path)),
      grid_(grid),
      calendar_(calendar),
      units_(kTimeUnits, calendar, path_),
      probabilities_(probabilities) {
  const auto lock = lock_hdf5();
  check(nc_create(path_.c_str(), NC_NETCDF4 | NC_CLOBBER, &file_));
}

MapFile::~MapFile() {
  const auto lock = lock_hdf5();
  if (file_ >= 0) nc_close(file_);
}

void MapFile::check(int status) const {
  if (status == NC_NOERR) return;
  // HDF5 does not say why a write fails.
  constexpr std::uintmax_t kFull = 1 << 20;
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::absolute(path_).parent_path();
  const std::uintmax_t free = std::filesystem::space(folder, ignored).available;
  user_error("{} cannot be written (netCDF: {}){}", path_, nc_strerror(status),
             free < kFull ? fmt::format("; {} bytes are free in {}", free, folder.string()) : "");
}

void MapFile::describe(int variable, const Texts& attributes) const {
  for (const auto& [name, text] : attributes) {
    check(nc_put_att_text(file_, variable, name.c_str(), text.size(), text.c_str()));
  }
}

void MapFile::define(bool has_time) {
  const auto height = static_cast<std::size_t>(grid_.height()), width = static_cast<std::size_t>(grid_.width());
  std::array<int, 3> dims{};
  check(nc_def_dim(file_, has_time ? "time" : "frame", NC_UNLIMITED, &dims[0]));
  check(nc_def_dim(file_, "lat", height, &dims[1]));
  check(nc_def_dim(file_, "lon", width, &dims[2]));
  int latitude = 0, longitude = 0;
  check(nc_def_var(file_, "lat", NC_DOUBLE, 1, &dims[1], &latitude));
  describe(latitude, {{"standard_name", "latitude"}, {"units", "degrees_north"}, {"axis", "Y"}});
  check(nc_def_var(file_, "lon", NC_DOUBLE, 1, &dims[2], &longitude));
  describe(longitude, {{"standard_name", "longitude"}, {"units", "degrees_east"}, {"axis", "X"}});
  if (has_time) {
    check(nc_def_var(file_, "time", NC_DOUBLE, 1, dims.data(), &time_));
    describe(time_, {{"standard_name", "time"}, {"units", kTimeUnits}, {"calendar", calendar_}, {"axis", "T"}});
  }
  const std::array<std::size_t, 3> chunk = {1, height, width};
  const auto define_maps = [&](const std::string& name, nc_type type, const Texts& attributes) {
    int variable = 0;
    check(nc_def_var(file_, name.c_str(), type, 3, dims.data(), &variable));
    check(nc_def_var_chunking(file_, variable, NC_CHUNKED, chunk.data()));
    check(nc_def_var_deflate(file_, variable, 1, 1, 1));
    describe(variable, attributes);
    return variable;
  };
  std::string meanings;
  std::vector<signed char> values;
  for (std::size_t c = 0; c < kTagMeanings.size(); ++c) {
    meanings += (c == 0 ? "" : " ") + std::string(kTagMeanings[c]);
    values.push_back(static_cast<signed char>(c));
  }
  tag_ = define_maps(kLabelTags, NC_BYTE, {{"long_name", "class of the pixel"}, {"flag_meanings", meanings}});
  check(nc_put_att_schar(file_, tag_, "flag_values", NC_BYTE, values.size(), values.data()));
  for (std::size_t c = 1; c < kTagNames.size() && probabilities_; ++c) {
    probability_[c] = define_maps("probability_" + std::string(kTagNames[c]), NC_FLOAT,
                                  {{"long_name", "probability of " + std::string(kTagMeanings[c])}, {"units", "1"}});
  }
  check(nc_enddef(file_));
  check(nc_put_var_double(file_, latitude, grid_.latitude.data()));
  check(nc_put_var_double(file_, longitude, grid_.longitude.data()));
}

void MapFile::append(const std::string& time, const std::string& source, std::span<const std::uint8_t> classes,
                     std::span<const float> probabilities) {
  const auto height = static_cast<std::size_t>(grid_.height()), width = static_cast<std::size_t>(grid_.width());
  PETAFLOW_REQUIRE(
      classes.size() == height * width && probabilities.size() == (probabilities_ ? 3 : 0) * height * width,
      "{} classes and {} probabilities for {} x {} pixels", classes.size(), probabilities.size(), height, width);
  const auto lock = lock_hdf5();
  if (!std::exchange(defined_, true)) define(!time.empty());
  if (time.empty() != (time_ < 0)) {
    user_error("{} {}; files of both kinds cannot go into one file of maps", source,
               time.empty() ? "does not say when a frame was, but frames before it have a moment"
                            : "says when a frame was, but frames before it have no moment");
  }
  if (time_ >= 0) {
    const std::optional<double> hours = units_.count(time);
    if (!hours) user_error("{}: {} is no moment of the calendar {}", source, time, calendar_);
    check(nc_put_var1_double(file_, time_, &frames_, &*hours));
  }
  const std::array<std::size_t, 3> first = {frames_, 0, 0}, count = {1, height, width};
  check(nc_put_vara_uchar(file_, tag_, first.data(), count.data(), classes.data()));
  std::vector<float> plane(probabilities_ ? height * width : 0);
  for (std::size_t c = 1; c < kTagNames.size() && probabilities_; ++c) {
    for (std::size_t p = 0; p < plane.size(); ++p) plane[p] = probabilities[p * kTagNames.size() + c];
    check(nc_put_vara_float(file_, probability_[c], first.data(), count.data(), plane.data()));
  }
  ++frames_;
}

void MapFile::close(const Texts& attributes) {
  const auto lock = lock_hdf5();
  if (!std::exchange(defined_, true)) define(false);
  check(nc_redef(file_));
  describe(NC_GLOBAL, {{"Conventions", "CF-1.8"}, {"title", "Tropical cyclones and atmospheric rivers"}});
  describe(NC_GLOBAL, attributes);
  check(nc_close(std::exchange(file_, -1)));
}

}  // namespace petaflow::climate
