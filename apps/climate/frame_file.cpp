#include "climate/frame_file.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "climate/cf_file.hpp"
#include "climate/deepcam_file.hpp"
#include "climate/extreme_weather_file.hpp"
#include "climate/frame_time.hpp"
#include "climate/npy_frame.hpp"
#include "io/missing_file.hpp"
#include "io/progress.hpp"

namespace petaflow::climate {
namespace {

/// Whether an HDF5 file is one of netCDF 4: the library marks it, and dimensions of a field are named scales.
bool is_netcdf(const Hdf5File& file) {
  if (file.text_attribute("/", "_NCProperties")) return true;
  return file.has("lat") || file.has("latitude");  // older libraries set no mark
}

}  // namespace

void FrameFile::require(std::span<const int> fields, const std::string& remedy) const {
  for (const int field : fields) {
    if (has(field)) continue;
    user_error("{} has no variable {}; it has {} ({})", path_, kFields[static_cast<std::size_t>(field)].name,
               contents(), remedy);
  }
}

std::string FrameFile::contents() const {
  std::vector<std::string_view> there;
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    if (place_[i] >= 0) there.push_back(kFields[i].name);
  }
  return fmt::format("{}", fmt::join(there, ", "));
}

void FrameFile::read_fields(std::int64_t frame, std::span<const int> fields, RawFields& raw) const {
  require(fields);
  if (frame < 0 || frame >= frames()) user_error("{} has no frame {}; it has {}", path_, frame, frames());
  std::vector<std::int64_t> places;
  for (const int field : fields) places.push_back(place_[static_cast<std::size_t>(field)]);
  read_places(frame, places, raw);
}

std::vector<std::uint8_t> FrameFile::read_own_labels(std::int64_t /*frame*/) const {
  user_error("{} has no labels", path_);
}

std::vector<std::uint8_t> FrameFile::read_labels(std::int64_t frame) const {
  if (!given_labels_) return read_own_labels(frame);
  std::vector<float> tags(static_cast<std::size_t>(pixels()));
  given_labels_->read(0, frame, tags);
  return to_tags(tags, grid_.width(), fmt::format("{}: {}", given_labels_->file().path(), kLabelTags));
}

void FrameFile::take_labels(const std::string& path) {
  auto labels = std::make_unique<const CfVariables>(path, std::vector<std::string>{kLabelTags});
  const auto size_text = [](std::int64_t frames, const Grid& grid) {
    return fmt::format("{} of {} x {} pixels", format_count(frames, "frame"), grid.height(), grid.width());
  };
  const std::string theirs = size_text(labels->frames(), labels->grid()), ours = size_text(frames(), grid_);
  if (theirs != ours)
    user_error("{} has {}, but {} has {}: these are labels of another file", path, theirs, path_, ours);
  if (const std::string other = difference(labels->grid(), grid_); !other.empty())
    user_error("{}: {} in {}: these are labels of another file", path, other, path_);
  for (std::int64_t i = 0; i < frames(); ++i) {  // files of two folders may have one name
    const std::string of_labels = labels->time(i), own = time(i);
    if (of_labels.empty() || own.empty() || of_labels == own) continue;
    user_error("{}: frame {} is of {}, but that of {} is of {}: these are labels of another file", path, i, of_labels,
               path_, own);
  }
  given_labels_ = std::move(labels);
}

std::string label_name(const std::string& path) { return std::filesystem::path(path).stem().string() + "-labels.nc"; }

std::vector<Box> FrameFile::read_boxes(std::int64_t /*frame*/) const { user_error("{} has no boxes", path_); }

std::string FrameFile::time(std::int64_t /*frame*/) const { return time_of_file(path_); }

std::string FrameFile::calendar() const { return "standard"; }

namespace {

std::unique_ptr<FrameFile> open_layout(const std::string& path, const FrameFileOptions& options) {
  if (const std::string missing = missing_file_text(path); !missing.empty()) user_error("{}", missing);
  if (std::filesystem::is_directory(path))
    user_error("{} is a folder; name the files in it, such as {}", path, (std::filesystem::path(path) / "*").string());
  if (std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) == 0) user_error("{} is empty", path);
  if (path.ends_with(".npy")) return std::make_unique<NpyFrame>(path);
  if (!is_hdf5(path)) return std::make_unique<CfFile>(path, options);  // netCDF 3, or nothing
  const Hdf5File file = Hdf5File::open(path);
  if (file.has("images")) return std::make_unique<ExtremeWeatherFile>(path, options);
  if (!file.has("climate") && is_netcdf(file)) return std::make_unique<CfFile>(path, options);
  return std::make_unique<DeepCamFile>(path, options);
}

}  // namespace

std::unique_ptr<FrameFile> open_frames(const std::string& path, const FrameFileOptions& options) {
  auto file = open_layout(path, options);
  const auto labels = std::filesystem::path(options.labels) / label_name(path);
  if (!options.labels.empty()) file->take_labels(labels.string());
  return file;
}

Frame read_frame(const FrameFile& file, std::int64_t index) {
  Frame frame;
  frame.grid = file.grid();
  std::array<int, kFields.size()> all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  RawFields raw;
  file.read_fields(index, all, raw);
  frame.fields.reserve(static_cast<std::size_t>(kFieldCount * frame.pixels()));
  for (const std::int64_t first : raw.first) {
    for (std::int64_t p = 0; p < frame.pixels(); ++p) {
      frame.fields.push_back(raw.values[static_cast<std::size_t>(first + p * raw.step)]);
    }
  }
  if (file.has_labels()) frame.labels = file.read_labels(index);
  if (file.has_boxes()) frame.boxes = file.read_boxes(index);
  frame.time = file.time(index);
  return frame;
}

std::vector<std::uint8_t> to_tags(std::span<const float> values, std::int64_t width, const std::string& where) {
  std::vector<std::uint8_t> tags(values.size());
  for (std::size_t p = 0; p < values.size(); ++p) {
    const float value = values[p];
    if (value != 0 && value != 1 && value != 2) {  // NaN, too
      const auto at = static_cast<std::int64_t>(p);
      user_error("{} is {} at row {}, column {}; a label is 0 ({}), 1 ({}) or 2 ({})", where, value, at / width,
                 at % width, kTagNames[0], kTagNames[1], kTagNames[2]);
    }
    tags[p] = static_cast<std::uint8_t>(value);
  }
  return tags;
}

}  // namespace petaflow::climate
