// A frame in files of NumPy: data-NAME.npy with all 16 variables, channels first or last, and label-NAME.npy.
#pragma once

#include <string>
#include <vector>

#include "climate/frame_file.hpp"
#include "io/npy.hpp"

namespace petaflow::climate {

/// The file of the labels of data-NAME.npy, whether it is there or not; empty for files of other names.
std::string label_file_of(const std::string& path);

class NpyFrame final : public FrameFile {
 public:
  explicit NpyFrame(const std::string& path);

  std::string format() const override { return "npy"; }

 protected:
  bool has_own_labels() const override { return !label_path_.empty(); }
  std::vector<std::uint8_t> read_own_labels(std::int64_t frame) const override;
  void read_places(std::int64_t frame, std::span<const std::int64_t> places, RawFields& raw) const override;

 private:
  NpyFile data_;
  std::string label_path_;  // empty: there is none
  bool channels_last_ = true;
};

}  // namespace petaflow::climate
