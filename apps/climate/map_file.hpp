// Maps of classes and their probabilities as a netCDF file that grows frame by frame.
// Source: CF conventions 1.8 (https://cfconventions.org): coordinates 4.1, 4.2 and 4.4, flags 3.5.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "climate/calendar.hpp"
#include "climate/fields.hpp"
#include "climate/grid.hpp"

namespace petaflow::climate {

/// netCDF-4 with dimensions time, lat and lon.  Variables: tag (time, lat, lon), a byte per pixel with flag_values and
/// flag_meanings; with probabilities, probability_<tag> f32 for each event (time, lat, lon).  A set of frames whose
/// moments are not known has a dimension frame, without coordinate, instead of time.
/// All functions throw user errors that name the file.
class MapFile {
 public:
  /// Creates the file, replacing an old one.
  /// @param calendar  of the moments, as CF names it
  MapFile(std::string path, const Grid& grid, const std::string& calendar, bool probabilities);
  ~MapFile();
  MapFile(const MapFile&) = delete;
  MapFile& operator=(const MapFile&) = delete;

  /// @param time           "1979-01-31T03:00:00", or empty; known for all frames or for none
  /// @param source         the file that the frame is of, which messages name
  /// @param classes        (H, W), a Tag each
  /// @param probabilities  (H, W, 3), where the file has some
  void append(const std::string& time, const std::string& source, std::span<const std::uint8_t> classes,
              std::span<const float> probabilities = {});
  /// Writes attributes of the file beside those of CF, and closes it.
  void close(const std::map<std::string, std::string>& attributes);

 private:
  void define(bool has_time);
  void check(int status) const;
  void describe(int variable, const std::map<std::string, std::string>& attributes) const;

  std::string path_;
  Grid grid_;
  std::string calendar_;
  TimeUnits units_;
  bool probabilities_, defined_ = false;
  int file_ = -1, time_ = -1, tag_ = -1;
  int probability_[kTagNames.size()] = {};
  std::size_t frames_ = 0;
};

}  // namespace petaflow::climate
