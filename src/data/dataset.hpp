// A data set as the rest of petaflow sees it: samples of one shape, addressed by index.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/target.hpp"

namespace petaflow {

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

/// One sample with its targets, as bytes in memory that somebody else owns (a batch).
struct SampleBytes {
  std::span<std::byte> input;                                  // (D, H, W, C), of the set's type
  std::array<std::span<std::byte>, kMaxTargets> targets = {};  // in the order of Dataset::targets()

  /// A target as TargetKind lists them: float for numbers, std::int32_t for a class, std::uint8_t for a map.
  template <class T>
  std::span<T> target(std::size_t i) const {
    return numbers<T>(targets[i]);
  }
};

/// The boxes of a sample, at most as many as there is room for, or that they are not known.
class BoxTarget {
 public:
  /// @param fields  of a box
  BoxTarget(std::span<std::byte> bytes, std::int64_t fields)
      : count_(numbers<std::int32_t>(bytes.first(sizeof(std::int32_t))).front()),
        values_(numbers<float>(bytes.subspan(sizeof(std::int32_t)))),
        fields_(static_cast<std::size_t>(fields)) {}

  bool known() const { return count_ >= 0; }
  /// 0 where they are not known.
  std::size_t size() const { return known() ? static_cast<std::size_t>(count_) : 0; }
  std::size_t room() const { return values_.size() / fields_; }
  std::span<float> operator[](std::size_t i) const { return values_.subspan(i * fields_, fields_); }
  /// Sets how many there are, and the places of the others to zeros.  Throws a failure where there is no room.
  void resize(std::size_t count) {
    PETAFLOW_REQUIRE(count <= room(), "{} boxes where there is room for {}", count, room());
    count_ = static_cast<std::int32_t>(count);
    std::ranges::fill(values_.subspan(count * fields_), 0.0F);
  }
  void set_unknown() {
    resize(0);
    count_ = -1;
  }

 private:
  std::int32_t& count_;
  std::span<float> values_;
  std::size_t fields_;
};

/// What a data set counted while its samples were read, such as hits of a cache.
struct ReadCount {
  std::string name;
  std::int64_t count = 0;
};

/// Samples [first, last).
struct SampleRange {
  std::int64_t first = 0, last = 0;
};

/// Samples that a rank reads where all ranks together read everything once: equal shares, in order of rank.
SampleRange share_of_samples(std::int64_t samples, int rank, int ranks);

/// Samples of one shape; reading is safe from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  /// C, D, H, W; 2-D data have D = 1.
  virtual std::array<std::int64_t, 4> sample_dims() const = 0;
  /// Type of the numbers of a sample.
  virtual DType type() const { return DType::kF32; }
  /// In the order of the samples; empty: they come from no file.
  virtual std::vector<std::string> files() const { return {}; }
  /// Layout of the files, as data.format names it; empty: they come from no file.
  virtual std::string format() const { return {}; }
  /// How samples and their numbers follow from the files where that is not plain: a sentence each, for people.
  virtual std::vector<std::string> notes() const { return {}; }
  virtual SampleOrigin origin(std::int64_t index) const { return {0, index}; }
  /// Targets to be predicted for a sample; names are unique.
  virtual std::vector<TargetSpec> targets() const = 0;
  /// What the numbers of a target are called, in their order; empty: they have no names.
  virtual std::vector<std::string> names(std::size_t /*target*/) const { return {}; }
  /// Fills a sample, channels last, transformed and normalised; and its targets, whose bytes may hold anything before.
  /// Returns its weight in the loss; 0: its targets are not known.  Throws Error naming file and sample.
  virtual float read(std::int64_t index, const SampleBytes& sample) const = 0;
  /// The same names on all ranks.
  virtual std::vector<ReadCount> read_counts() const { return {}; }

  // A set that was just opened may have to be completed before it is read: by what is in its files, which ranks share
  // the reading of (program/open_data.hpp).

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

/// Memory for one sample and its targets.
class SampleStorage {
 public:
  explicit SampleStorage(const Dataset& data);
  const SampleBytes& bytes() const { return bytes_; }
  template <class T>
  std::span<T> input() const {
    return numbers<T>(bytes_.input);
  }

 private:
  std::vector<std::vector<std::byte>> storage_;
  SampleBytes bytes_;
};

/// Largest absolute value of each channel over a range of f32 samples.
std::vector<float> channel_maxima(const Dataset& data, SampleRange range);

/// Reads every sample of a range once, so that unreadable or invalid ones are found; throws at the first.
void check_samples(const Dataset& data, SampleRange range);

}  // namespace petaflow
