// Frames as samples: some of the 16 variables as scaled channels, and as targets a class per pixel, boxes, or both.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "climate/frame_cache.hpp"
#include "climate/frame_file.hpp"
#include "climate/scaling.hpp"
#include "data/dataset.hpp"
#include "data/recently_used.hpp"

namespace petaflow::climate {

struct ClimateDataOptions {
  std::vector<std::string> channels;        // of a sample, by name and in this order; empty: all 16
  std::int64_t height = 768, width = 1152;  // of every frame
  bool as_it_is = false;                    // height and width give way to those of the files (inspect)
  FrameFileOptions file;
  std::string from, to;  // days, both included; empty: all
  Normalise normalise = Normalise::kZScore;
  std::string stats;                     // file of statistics; empty: of the training set
  std::vector<double> offsets, factors;  // what the training set was scaled by; empty: by statistics
  Grid trained_on;                       // grid of the training set; empty: not known
  double clip = 10;                      // largest |x'| of a scaled channel (precipitation reaches tens of sigma);
                                         // 0: not clipped
  bool map = true, boxes = false;        // targets
  std::int64_t most_boxes = 15;          // of a frame
  bool own_labels_too = false;           // where no frame has labels in file.labels those in the files are taken
  bool targets_optional = false;         // a frame without has zeros, or no known boxes, and weight 0
  bool boxes_optional = false;           // a frame whose boxes are not known has weight 1 all the same
  double labelled_fraction = 1;          // of the frames: those of the others are not looked at
  std::int64_t labelled_seed = 1;        // of the choice
  std::int64_t cache_bytes = std::int64_t{4} << 30;  // sets up to this size (scaled, f32) are kept once they are read
  std::string cache;                                 // folder of copies on a local disk; empty: none
  CacheType cache_type = CacheType::kF32;
};

/// Facts about a set before its samples are read.
struct ClimateIndex {
  std::string format;  // of the first file
  std::vector<std::string> files;
  std::vector<std::int64_t> frames;  // of each file
  Grid grid;                         // of the first file
  ChannelScaling scaling;
  bool own_labels = false;         // not those in file.labels
  std::vector<std::string> notes;  // what is not plain about it
};

/// From one rank to others: bytes.hpp.
template <class Bytes>
void exchange(Bytes& bytes, ClimateIndex& index) {
  bytes(index.format, index.files, index.frames, index.grid.latitude, index.grid.longitude, index.scaling.offsets,
        index.scaling.factors, index.own_labels, index.notes);
}

/// Looks into the first file, and into all where files hold several frames; the others must be alike, which is checked
/// when they are read.  Takes the scaling from options, or from statistics of a file or of this set, which is read for
/// that by all threads.  Throws user errors.
ClimateIndex scan_climate(const ClimateDataOptions& given, const std::vector<std::string>& files);

/// Throws a user error where no frame whose boxes are looked at has any; `what` names the list of files.
void check_any_box(const ClimateDataOptions& options, const ClimateIndex& index, const std::string& what);

/// The variables that the options name as channels, or all.  Throws user errors (unknown, twice).
std::vector<int> channel_fields(const ClimateDataOptions& options);

/// Whether the boxes of each of so many frames are looked at: a share of them that is rounded up, by chance.
std::vector<bool> labelled_frames(std::int64_t frames, double fraction, std::int64_t seed);

/// Targets: "map", a Tag per pixel, and "boxes", (ymin, xmin, ymax, xmax, kind) each, in pixels; the centre of a box
/// lies in the frame, and what reaches out of it in the west or east goes on at the other side.
class ClimateData final : public Dataset {
 public:
  /// Opens no file of frames.  Throws a user error where the folder of copies cannot be made.
  ClimateData(const ClimateDataOptions& options, ClimateIndex index);

  std::int64_t size() const override { return std::ssize(samples_); }
  std::array<std::int64_t, 4> sample_dims() const override {
    return {std::ssize(fields_), 1, options_.height, options_.width};
  }
  std::vector<TargetSpec> targets() const override;
  std::vector<std::string> files() const override { return index_.files; }
  std::string format() const override { return index_.format; }
  std::vector<std::string> notes() const override { return index_.notes; }
  SampleOrigin origin(std::int64_t index) const override { return samples_[static_cast<std::size_t>(index)]; }
  /// Throws a user error naming the file where a frame has another size than the options say, other coordinates than
  /// the first file or not all variables, or where a number is no value or no label.
  float read(std::int64_t index, const SampleBytes& sample) const override;
  std::vector<ReadCount> read_counts() const override;

  /// The variables of the channels.
  const std::vector<int>& fields() const { return fields_; }
  /// What the channels are scaled by: to be kept with the weights and given as `offsets` and `factors` to other sets.
  const ChannelScaling& scaling() const { return index_.scaling; }
  const Grid& grid() const { return index_.grid; }
  /// The file of a sample, open; for what a sample does not hold: its other variables, its moment.
  std::shared_ptr<const FrameFile> open(std::int64_t index) const;

 private:
  struct Kept {
    std::once_flag once;
    std::vector<std::byte> input;
    std::vector<std::vector<std::byte>> targets;
    float weight = 0;
  };

  float read_labelled(std::int64_t index, const SampleBytes& sample) const;
  float read_copy_or_file(std::int64_t index, const SampleBytes& sample) const;
  float read_file(std::int64_t index, const SampleBytes& sample) const;
  float read_targets(const FrameFile& file, std::int64_t frame, const SampleBytes& sample) const;
  bool read_boxes(const FrameFile& file, std::int64_t frame, std::span<std::byte> target) const;
  void convert(const FrameFile& file, std::int64_t frame, const RawFields& raw, std::span<float> sample) const;

  ClimateDataOptions options_;
  ClimateIndex index_;
  std::vector<int> fields_;
  std::vector<SampleOrigin> samples_;
  std::vector<bool> labelled_;  // samples whose boxes are looked at
  std::unique_ptr<RecentlyUsed<std::unique_ptr<FrameFile>>> open_;
  std::unique_ptr<Kept[]> kept_;  // of each sample, where the set is kept
  std::unique_ptr<FrameCache> cache_;
};

}  // namespace petaflow::climate
