#include "climate/deepcam_file.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

#include "base/error.hpp"

namespace petaflow::climate {
namespace {

constexpr const char* kData = "climate/data";
constexpr const char* kChannels = "climate/channels";

/// The variables of the channels, by their number among the 16; all of them where the file does not say.
std::vector<std::int32_t> channel_list(const Hdf5File& file) {
  if (file.has(kChannels)) return file.read<std::int32_t>(kChannels);
  std::vector<std::int32_t> all(kFields.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

DeepCamFile::DeepCamFile(const std::string& path, const FrameFileOptions& options)
    : FrameFile(path), file_(Hdf5File::open(path)), data_(file_.dataset(kData)) {
  place_channels();
  find_labels(options.label_set);
}

void DeepCamFile::place_channels() {
  const std::vector<std::int64_t>& dims = data_.info().dims;
  const std::vector<std::int32_t> channels = channel_list(file_);
  const std::int64_t count = std::ssize(channels);
  if (dims.size() != 3 || (dims[0] != count && dims[2] != count) || std::ranges::find(dims, 0) != dims.end()) {
    user_error("{}: {} is {}; (H, W, {}) or ({}, H, W) was expected", path(), kData, data_.info().text(), count, count);
  }
  channels_last_ = dims[2] == count;
  grid_ = channels_last_ ? cam5_grid(dims[0], dims[1]) : cam5_grid(dims[1], dims[2]);
  for (std::int64_t c = 0; c < count; ++c) {
    const std::int32_t field = channels[static_cast<std::size_t>(c)];
    if (field < 0 || field >= kFieldCount || place_[static_cast<std::size_t>(field)] >= 0) {
      user_error("{}: {} is {}; different numbers from 0 to {} were expected", path(), kChannels,
                 fmt::join(channels, ", "), kFieldCount - 1);
    }
    place_[static_cast<std::size_t>(field)] = c;
  }
}

void DeepCamFile::find_labels(std::int64_t label_set) {
  const std::string own = fmt::format("climate/labels_{}", label_set);
  if (file_.has(own)) {
    labels_ = file_.dataset(own);
  } else if (file_.has("climate/labels")) {
    labels_ = file_.dataset("climate/labels");
    label_row_ = label_set;
  } else if (std::ranges::any_of(file_.datasets(), [](const std::string& name) {
               return name.starts_with("/climate/labels_") && !name.ends_with("_stats");
             })) {
    user_error("{} has no data set {} (data.label_set = {}); it holds {}", path(), own, label_set, file_.contents());
  }
  if (!labels_) return;
  std::vector<std::int64_t> dims = labels_->info().dims;
  std::int64_t sets = 1;
  if (dims.size() == 3) {
    sets = dims[0];
    dims.erase(dims.begin());
  }
  if (dims != std::vector{grid_.height(), grid_.width()}) {
    user_error("{}: {} is {}, but {} is of {} x {} pixels", path(), labels_->name(), labels_->info().text(), kData,
               grid_.height(), grid_.width());
  }
  if (label_row_ >= sets) {
    user_error("{}: {} is {}: there are no labels {} (data.label_set)", path(), labels_->name(), labels_->info().text(),
               label_row_);
  }
}

std::vector<std::uint8_t> DeepCamFile::read_own_labels(std::int64_t frame) const {
  if (!labels_) return FrameFile::read_own_labels(frame);
  std::vector<float> values(static_cast<std::size_t>(pixels()));
  if (labels_->info().dims.size() == 3) {
    labels_->read<float>(label_row_, 1, values);
  } else {
    labels_->read<float>(0, grid_.height(), values);
  }
  return to_tags(values, grid_.width(), fmt::format("{}: {}", path(), labels_->name()));
}

std::string DeepCamFile::time(std::int64_t frame) const {
  return file_.text_attribute("climate", "time").value_or(FrameFile::time(frame));
}

void DeepCamFile::read_places(std::int64_t /*frame*/, std::span<const std::int64_t> places, RawFields& raw) const {
  raw.first.assign(places.begin(), places.end());
  if (channels_last_) {  // all channels lie together
    raw.step = data_.info().dims[2];
    raw.values.resize(static_cast<std::size_t>(pixels() * raw.step));
    data_.read<float>(0, grid_.height(), raw.values);
    return;
  }
  raw.step = 1;
  raw.values.resize(places.size() * static_cast<std::size_t>(pixels()));
  for (std::size_t k = 0; k < places.size(); ++k) {
    const std::size_t at = k * static_cast<std::size_t>(pixels());
    raw.first[k] = static_cast<std::int64_t>(at);
    data_.read<float>(places[k], 1, std::span(raw.values).subspan(at, static_cast<std::size_t>(pixels())));
  }
}

}  // namespace petaflow::climate
