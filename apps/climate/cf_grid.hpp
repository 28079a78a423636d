// Variables of a CF netCDF file on one global grid: found by name, and turned so that rows run from south to north and
// columns from longitude 0 eastward.
// Source: CF conventions 1.11, sections 4 (coordinates) and 5 (coordinate systems).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "climate/calendar.hpp"
#include "climate/grid.hpp"
#include "climate/netcdf.hpp"

namespace petaflow::climate {

/// Variables (lat, lon), (time, lat, lon) or (time, level, lat, lon) with one level; safe to read from several threads.
class CfVariables {
 public:
  /// At least one name.  Throws user errors: a variable is missing or of other dimensions, coordinates are missing, do
  /// not go round the Earth or differ between variables, units or calendar of the time are unknown.
  CfVariables(const std::string& path, std::vector<std::string> names);

  const NetcdfFile& file() const { return file_; }
  const Grid& grid() const { return grid_; }
  /// Number of moments.
  std::int64_t frames() const { return time_ ? time_->size : 1; }
  /// "2017-02-28T00:00:00"; empty where the file does not say it.
  std::string time(std::int64_t frame) const;
  /// Its calendar, as CF names it.
  std::string calendar() const { return calendar_; }
  /// Fills (H, W) with a variable of names[k], unpacked; gaps are NaN.
  void read(std::size_t k, std::int64_t frame, std::span<float> plane) const;

 private:
  struct Axis {
    NetcdfDimension dimension;
    std::vector<double> values;
  };
  Axis read_axis(const std::string& variable, const NetcdfDimension& dimension, char direction) const;
  void set_grid();
  void set_time(const std::string& dimension);

  NetcdfFile file_;
  std::vector<std::string> names_;
  std::vector<std::vector<NetcdfDimension>> dimensions_;  // of each variable
  Axis latitude_, longitude_;                             // as the file has them
  Grid grid_;
  bool from_north_ = false;
  std::size_t first_column_ = 0;  // in the file, of grid_
  std::optional<NetcdfDimension> time_;
  std::vector<double> times_;
  std::optional<TimeUnits> units_;
  std::string calendar_ = "standard";
  std::vector<std::string> time_texts_;
};

}  // namespace petaflow::climate
