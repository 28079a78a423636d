// What a data set is to the rest of petaflow: samples of one shape, addressed by index.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"

namespace petaflow {

struct Sample {
  std::int32_t label = 0;  // -1: what is to be predicted is not known
  float weight = 1;        // of the loss
};

/// Where a sample comes from.
struct SampleOrigin {
  std::int32_t file = 0;   // position in Dataset::files()
  std::int64_t index = 0;  // in that file
};

/// The numbers of samples, which data sets, loaders and augmentations pass on as bytes of the set's type.
template <class T>
std::span<T> numbers(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// Samples [first, last).
struct SampleRange {
  std::int64_t first = 0, last = 0;
};

/// What a rank reads where all ranks together read everything once: equal parts, in order of rank.
SampleRange share_of_samples(std::int64_t samples, int rank, int ranks);

/// Samples of one shape; reading is safe from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  /// C, D, H, W; 2-D data have D = 1.
  virtual std::array<std::int64_t, 4> sample_dims() const = 0;
  /// Of the numbers of a sample.
  virtual DType type() const { return DType::kF32; }
  /// In the order of the samples; empty: they come from no file.
  virtual std::vector<std::string> files() const { return {}; }
  /// How samples and their numbers follow from the files where that is not plain: a sentence each, for people.
  virtual std::vector<std::string> notes() const { return {}; }
  virtual SampleOrigin origin(std::int64_t index) const { return {0, index}; }
  /// Numbers to be predicted for a sample (regression); 0: its class.
  virtual std::int64_t targets() const { return 0; }
  /// Fills a sample, (D, H, W, C): channels last, transformed and normalised; and its targets.  Throws Error naming
  /// file and sample.
  virtual Sample read(std::int64_t index, std::span<std::byte> sample, std::span<float> targets) const = 0;

  // A set that was just opened may have to be completed before it is read: by what is in its files, which ranks share
  // the reading of (train/open_data.hpp).

  /// Where the set holds all of its samples, (N, D, H, W, C); empty: they are read from files when they are needed.
  virtual std::span<float> memory() { return {}; }
  /// Fills the samples of a range of memory().  Throws Error naming file and sample.
  virtual void load(SampleRange /*range*/) {}
  /// Whether the set is to be divided by its channel_maxima() and has not been given them.
  virtual bool wants_maxima() const { return false; }
  virtual void set_maxima(const std::vector<float>& /*maxima*/) {}

  /// C D H W, numbers of one sample.
  std::int64_t sample_elements() const;
  std::size_t sample_bytes() const { return static_cast<std::size_t>(sample_elements()) * size_of(type()); }
};

/// Largest absolute value of each channel over a range of f32 samples.
std::vector<float> channel_maxima(const Dataset& data, SampleRange range);

/// Reads every sample of a range once, so that unreadable or invalid ones are found; throws at the first.
void check_samples(const Dataset& data, SampleRange range);

}  // namespace petaflow
