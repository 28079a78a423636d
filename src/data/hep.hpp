// Calorimeter images of collision events, signal against background, from three layouts of HDF5 files:
//   all_events   group all_events: hist, histEM, histtrack (N, eta, phi) each, y, weight, passSR*; or images (N, 3, H,
//   W) or
//                (N, H, W, 3), labels, weights (public RPV-SUSY files; the KISTI conversion of them)
//   sc17         data (N, 3, phi, eta), label, weight, normweight, psr (chunks of arXiv:1708.05256)
//   class_files  a data set (N, eta, phi) of any name, the class in the name of the file
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/augment.hpp"
#include "data/dataset.hpp"
#include "data/hep_file.hpp"
#include "data/recently_used.hpp"

namespace petaflow {

/// Which labels a set must have.
enum class HepLabels {
  kBothClasses,  // to train
  kAny,          // to evaluate: one class may be empty
  kOptional      // to predict: -1 where a file has none
};

struct HepDataOptions {
  HepFileOptions file;

  std::array<std::int64_t, 2> crop = {0, 0};  // keeps the first rows and columns; 0: all
  std::string pedestal = "none";              // "phi_median": every value less the median over phi at its eta, event by
                                              // event and channel by channel (pile-up is the same all around phi)
  std::vector<std::string> transforms = {
      "none"};                           // "none", "linear" (x / unit), "signed_log" (sign(x) log1p(|x| / unit));
                                         // several are stacked: channel = transform * file channels + file channel
  std::vector<double> units = {1000.0};  // one, or one per file channel; 1000 MeV = 1 GeV
  std::vector<double> clip = {};         // {low, high} of the transformed values; empty: not clipped
  std::string scale = "none";            // "max": each channel is divided by its largest absolute value
  std::vector<float> maxima = {};        // for "max": those of the training set; empty: taken from this set
  std::string loss_weight = "none";      // "weight", "normweight": mean 1 per class over the set
  HepLabels labels = HepLabels::kBothClasses;
  std::int64_t cache_bytes = std::int64_t{4} << 30;  // sets up to this size (transformed, f32) are held in memory
};

/// All that the files of a set hold but the pixels.
struct HepIndex {
  std::vector<HepFile> files;
  std::vector<HepEvent> events;
};

/// Looks into files, in the order of the samples (patterns: expand_files); all of them must agree.  Throws
/// Error(kUser).
HepIndex scan_hep(const HepDataOptions& options, const std::vector<std::string>& files);

/// From one rank to others: bytes.hpp.
template <class Bytes>
void exchange(Bytes& bytes, HepIndex& index) {
  bytes(index.files, index.events);
}

class HepData final : public Dataset {
 public:
  /// Opens no file; at most 64 are open at a time while samples are read.  Throws Error(kUser).
  HepData(const HepDataOptions& options, HepIndex index);

  std::int64_t size() const override { return static_cast<std::int64_t>(events().size()); }
  std::array<std::int64_t, 4> sample_dims() const override { return {channels_, 1, height_, width_}; }
  /// 0: background, 1: signal, -1: not known
  std::vector<TargetSpec> targets() const override { return {TargetSpec::label("class", 2)}; }
  std::vector<std::string> files() const override;
  std::string format() const override { return index_.files.front().format; }
  /// Where the channels of one data set were found, and what pixels are divided by.
  std::vector<std::string> notes() const override;
  SampleOrigin origin(std::int64_t index) const override {
    const HepEvent& event = events()[static_cast<std::size_t>(index)];
    return {event.file, event.index};
  }
  /// Throws Error(kUser) naming file and event where a pixel is NaN or infinite, or cannot be read.
  float read(std::int64_t index, const SampleBytes& sample) const override;

  std::span<float> memory() override { return cache_; }
  void load(SampleRange range) override;
  bool wants_maxima() const override { return wants_maxima_; }
  void set_maxima(const std::vector<float>& maxima) override;

  /// Each event as its file describes it.
  const std::vector<HepEvent>& events() const { return index_.events; }
  std::array<std::int64_t, 2> class_counts() const { return class_counts_; }  // background, signal
  bool has_weights() const { return index_.files.front().has_weights; }
  bool has_selection() const { return index_.files.front().has_selection; }

  /// The axis of phi, and whether the images hold its whole circle (a crop may cut it).
  ImageAxis phi_axis() const { return index_.files.front().phi_axis; }
  bool phi_is_whole() const { return phi_is_whole_; }

  /// Divisors of the channels (all 1 without scale): to be stored with the weights and given as `maxima` to
  /// other sets.
  const std::vector<float>& maxima() const { return maxima_; }
  bool in_memory() const { return !cache_.empty(); }

 private:
  enum class Transform { kNone, kLinear, kSignedLog };

  void read_options(const HepDataOptions& options);
  void crop(const HepDataOptions& options);
  void weigh(const std::string& kind);
  /// Transforms `count` events of a file from raw pixels as read from it into (count, H, W, C).
  void convert(const HepFile& file, std::int64_t first, std::int64_t count, std::span<const float> raw,
               std::span<float> pixels) const;

  /// Pedestals of a channel of an event (its number in the file) as read: one per eta, zeros where none are subtracted.
  void pedestals(const HepFile& file, std::int64_t event, const float* plane, std::vector<float>& per_eta) const;

  std::shared_ptr<const OpenHepFile> open(std::size_t file) const;

  HepIndex index_;
  std::unique_ptr<RecentlyUsed<OpenHepFile>> open_;
  std::vector<float> loss_weights_;  // empty: all 1
  std::vector<Transform> transforms_;
  std::vector<float> units_;  // per file channel
  bool subtract_pedestal_ = false;
  float lowest_, highest_;  // clip
  std::int64_t channels_ = 0, height_ = 0, width_ = 0;
  std::array<std::int64_t, 2> class_counts_ = {0, 0};
  bool phi_is_whole_ = true;
  bool scales_ = false, wants_maxima_ = false;
  std::vector<float> maxima_;
  std::vector<float> cache_;  // (N, H, W, C), transformed, not yet divided by the maxima
};

}  // namespace petaflow
