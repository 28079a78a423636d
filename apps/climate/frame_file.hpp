// Files of frames, whatever their layout:
//   deepcam  HDF5, one frame: climate/data (H, W, 16), climate/labels_0 (H, W), labels_1 (MLPerf HPC DeepCAM)
//   sc18     HDF5, one frame: climate/data (C, H, W), climate/labels (H, W) or (n, H, W), climate/channels where there
//            are not all 16 (Kurth et al. 2018)
//   npy      data-NAME.npy as either of them, and label-NAME.npy (H, W)
//   extreme_weather  HDF5: images (n, 16, H, W), boxes (n, most, 5) (Racah et al. 2017)
//   climatenet  netCDF: the 16 variables (time, lat, lon), LABELS (lat, lon)
//   cf       netCDF: any of the 16 variables on a global grid (cf_grid.hpp)
// Channels first or last is told by the shape.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "climate/cf_grid.hpp"
#include "climate/frame.hpp"

namespace petaflow::climate {

struct FrameFileOptions {
  std::int64_t label_set = 0;  // which labels of a frame, where a file has several: labels_0, labels_1, ...
  std::string labels = {};     // folder of files that `label` wrote, one for each file; empty: labels are in the files
  std::vector<std::string> variable_names = {};  // netCDF: "TMQ=IWV" where a variable has another name in the files
  std::vector<std::string> box_columns = {"ymin", "xmin", "ymax", "xmax", "class"};  // ExtremeWeather: of `boxes`
};

/// Some variables of a frame as their file has them: pixel p of variable k is values[first[k] + p * step].
struct RawFields {
  std::vector<float> values;
  std::vector<std::int64_t> first;
  std::int64_t step = 1;
};

/// An open file of frames; safe to read from several threads.  Everything throws user errors that name the file.
class FrameFile {
 public:
  explicit FrameFile(std::string path) : path_(std::move(path)) { place_.fill(-1); }
  virtual ~FrameFile() = default;

  const std::string& path() const { return path_; }
  virtual std::string format() const = 0;
  /// Number of frames.
  virtual std::int64_t frames() const { return 1; }
  const Grid& grid() const { return grid_; }
  bool has(int field) const { return place_[static_cast<std::size_t>(field)] >= 0; }
  /// Throws where the file has not got some variables, naming those that it has.
  /// @param remedy  what may be done about that
  void require(std::span<const int> fields,
               const std::string& remedy = "data.channels names those that are read") const;
  /// Names of what is in the file, for messages.
  virtual std::string contents() const;
  bool has_labels() const { return given_labels_ != nullptr || has_own_labels(); }
  virtual bool has_boxes() const { return false; }

  /// Reads some variables of a frame, in the order of `fields`, rows from south to north.  Throws where the file has
  /// not got one; numbers are not checked (frame_check.hpp).
  void read_fields(std::int64_t frame, std::span<const int> fields, RawFields& raw) const;
  /// (H, W).  Throws too where a value is no Tag, naming value and pixel.
  std::vector<std::uint8_t> read_labels(std::int64_t frame) const;
  /// From now on labels are those of another file, in variable kLabelTags.  Throws where its grid, its moments or their
  /// number are others.
  void take_labels(const std::string& path);
  virtual std::vector<Box> read_boxes(std::int64_t frame) const;
  /// "1979-01-31T03:00:00"; empty where neither the file nor its name says it.
  virtual std::string time(std::int64_t frame) const;
  /// CF's name of the calendar of these moments.
  virtual std::string calendar() const;

 protected:
  virtual bool has_own_labels() const { return false; }
  virtual std::vector<std::uint8_t> read_own_labels(std::int64_t frame) const;
  /// @param places  of the variables in the file, at least one
  virtual void read_places(std::int64_t frame, std::span<const std::int64_t> places, RawFields& raw) const = 0;
  std::int64_t pixels() const { return grid_.height() * grid_.width(); }

  Grid grid_;
  std::array<std::int64_t, kFields.size()> place_;  // of each variable in the file; -1: it is not there

 private:
  std::string path_;
  std::unique_ptr<const CfVariables> given_labels_;
};

/// Name of the file with the labels of a file, and the variable that it has.
std::string label_name(const std::string& path);
inline constexpr const char* kLabelTags = "tag";

/// Opens a file; its layout is told by what is in it.
std::unique_ptr<FrameFile> open_frames(const std::string& path, const FrameFileOptions& options = {});

/// A whole frame with all 16 variables, and labels and boxes where the file has them.
Frame read_frame(const FrameFile& file, std::int64_t frame = 0);

/// Writes one frame in DeepCAM's layout: the file is there whole or not at all.  Labels are written where they are
/// known; boxes have no place in it.
void write_frame(const std::string& path, const Frame& frame);

/// Labels as tags.  Throws a user error naming value and pixel where one is no Tag.
std::vector<std::uint8_t> to_tags(std::span<const float> values, std::int64_t width, const std::string& where);

}  // namespace petaflow::climate
