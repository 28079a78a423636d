#include "climate/npy_frame.hpp"

#include <filesystem>
#include <numeric>

#include "base/error.hpp"
#include "io/hdf5.hpp"

namespace petaflow::climate {

std::string label_file_of(const std::string& path) {
  const std::string prefix = "data-";
  const std::filesystem::path data_path(path);
  const std::string name = data_path.filename().string();
  if (!name.starts_with(prefix)) return "";
  return (data_path.parent_path() / ("label-" + name.substr(prefix.size()))).string();
}

NpyFrame::NpyFrame(const std::string& path) : FrameFile(path), data_(path) {
  const std::vector<std::int64_t>& dims = data_.dims();
  if (dims.size() != 3 || (dims[0] != kFieldCount && dims[2] != kFieldCount)) {
    user_error("{}: the array is {}; (H, W, {}) or ({}, H, W) was expected", path, dims_text(dims), kFieldCount,
               kFieldCount);
  }
  channels_last_ = dims[2] == kFieldCount;
  grid_ = channels_last_ ? cam5_grid(dims[0], dims[1]) : cam5_grid(dims[1], dims[2]);
  std::iota(place_.begin(), place_.end(), 0);
  const std::string label_path = label_file_of(path);
  if (std::filesystem::exists(label_path)) label_path_ = label_path;
}

std::vector<std::uint8_t> NpyFrame::read_own_labels(std::int64_t frame) const {
  if (!has_own_labels()) return FrameFile::read_own_labels(frame);
  const NpyFile labels(label_path_);
  if (labels.dims() != std::vector{grid_.height(), grid_.width()}) {
    user_error("{}: the array is {}, but {} is of {} x {} pixels", label_path_, dims_text(labels.dims()), path(),
               grid_.height(), grid_.width());
  }
  return to_tags(labels.read_numbers(), grid_.width(), label_path_);
}

void NpyFrame::read_places(std::int64_t /*frame*/, std::span<const std::int64_t> places, RawFields& raw) const {
  raw.values = data_.read_numbers();
  raw.step = channels_last_ ? kFieldCount : 1;
  raw.first.assign(places.begin(), places.end());
  if (channels_last_) return;
  for (std::int64_t& first : raw.first) first *= pixels();
}

}  // namespace petaflow::climate
