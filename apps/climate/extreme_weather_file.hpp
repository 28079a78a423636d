// HDF5 files of ExtremeWeather (Racah et al. 2017): images (n, 16, H, W) with their variables in alphabetical order,
// and boxes (n, most, 5), whose unused rows are -1.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "climate/frame_file.hpp"
#include "io/hdf5.hpp"

namespace petaflow::climate {

class ExtremeWeatherFile final : public FrameFile {
 public:
  ExtremeWeatherFile(const std::string& path, const FrameFileOptions& options);

  std::string format() const override { return "extreme_weather"; }
  std::int64_t frames() const override { return images_.info().rows(); }
  bool has_boxes() const override { return boxes_.has_value(); }
  /// Throws a user error where a box reaches out of the frame, is empty, or is of no kind.
  std::vector<Box> read_boxes(std::int64_t frame) const override;
  /// Of the published files of a year, "climo_1979.h5": every 6 hours, without leap days; of a single frame by the
  /// name.
  std::string time(std::int64_t frame) const override;
  std::string calendar() const override { return frames() == 1 ? FrameFile::calendar() : "noleap"; }

 protected:
  void read_places(std::int64_t frame, std::span<const std::int64_t> places, RawFields& raw) const override;

 private:
  Hdf5File file_;
  Hdf5Dataset images_;
  std::optional<Hdf5Dataset> boxes_;
  std::array<std::size_t, 5> columns_;  // of boxes_: of ymin, xmin, ymax, xmax, class
};

/// Writes frames of one size with their boxes in this layout, the columns as published; the file is there whole or not
/// at all.  Labels have no place in it, and a box that goes on at column 0 becomes two.  Throws a user error where a
/// frame has more boxes than `most`.
void write_extreme_weather(const std::string& path, std::span<const Frame> frames, std::int64_t most = 15);

}  // namespace petaflow::climate
