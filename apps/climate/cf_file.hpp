// Frames in netCDF: ClimateNet's files, and those of any model or reanalysis whose variables are named.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "climate/cf_grid.hpp"
#include "climate/frame_file.hpp"

namespace petaflow::climate {

class CfFile final : public FrameFile {
 public:
  CfFile(const std::string& path, const FrameFileOptions& options);

  /// ClimateNet's have LABELS (lat, lon).
  std::string format() const override { return has_labels_ ? "climatenet" : "cf"; }
  std::int64_t frames() const override { return variables_->frames(); }
  /// All variables: one may be there by another name.
  std::string contents() const override;
  std::string time(std::int64_t frame) const override { return variables_->time(frame); }
  std::string calendar() const override { return variables_->calendar(); }

 protected:
  bool has_own_labels() const override { return has_labels_; }
  std::vector<std::uint8_t> read_own_labels(std::int64_t frame) const override;
  void read_places(std::int64_t frame, std::span<const std::int64_t> places, RawFields& raw) const override;

 private:
  std::unique_ptr<CfVariables> variables_;  // those of the 16 that there are, then the labels
  bool has_labels_ = false;
};

}  // namespace petaflow::climate
