// HDF5 files with one frame in the group `climate`: DeepCAM's (channels last) and those of SC18 (channels first).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "climate/frame_file.hpp"
#include "io/hdf5.hpp"

namespace petaflow::climate {

class DeepCamFile final : public FrameFile {
 public:
  DeepCamFile(const std::string& path, const FrameFileOptions& options);

  std::string format() const override { return channels_last_ ? "deepcam" : "sc18"; }
  std::string time(std::int64_t frame) const override;

 protected:
  bool has_own_labels() const override { return labels_.has_value(); }
  std::vector<std::uint8_t> read_own_labels(std::int64_t frame) const override;
  void read_places(std::int64_t frame, std::span<const std::int64_t> places, RawFields& raw) const override;

 private:
  void place_channels();
  void find_labels(std::int64_t label_set);

  Hdf5File file_;
  Hdf5Dataset data_;
  std::optional<Hdf5Dataset> labels_;
  std::int64_t label_row_ = 0;  // of labels_, where it is (n, H, W)
  bool channels_last_ = true;
};

}  // namespace petaflow::climate
