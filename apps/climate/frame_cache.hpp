// Copies of scaled samples on a local disk, a file each, so that frames are read from afar and scaled once.
//
// A copy is found by a hash of all that its numbers follow from: the sources with their size and the time of their last
// change, and a recipe.  It is written under another name and renamed: ranks of a host may share a folder, and a run
// that is killed leaves no half of a copy.  A file holds a head with a checksum, the numbers, and the targets.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "climate/sample_codec.hpp"
#include "data/dataset.hpp"

namespace petaflow::climate {

/// Safe to use from several threads, and from several processes of a host.
class FrameCache {
 public:
  /// Makes the folder, and removes what killed runs left there half written.  Throws a user error where that fails.
  /// @param recipe    whatever the samples follow from beside their sources
  /// @param channels  of a sample, which is f32
  /// @param targets   of a sample
  FrameCache(std::string folder, CacheType type, const std::string& recipe, std::int64_t channels, std::size_t targets);

  /// The file of a sample's copy.
  /// @param sources  the files that the sample is read from; one that is not there counts as none
  std::string path(const std::vector<std::string>& sources, std::int64_t frame) const;
  /// Fills a sample, its targets and its weight from a copy; false where there is none.  A damaged one is warned of,
  /// and is none.
  bool read(const std::string& path, const SampleBytes& sample, float& weight);
  /// Writes the copy of a sample, and gives the sample the copy's numbers.  Where the copy cannot be written (a full
  /// disk), a warning says so and no more are tried.  Throws what encode() throws.
  void write(const std::string& path, const SampleBytes& sample, float weight);

  std::vector<ReadCount> counts() const;

 private:
  std::size_t coded_bytes(const SampleBytes& sample) const;
  /// Memory of this thread for a copy.
  std::span<std::byte> buffer(const SampleBytes& sample) const;

  std::string folder_;
  CacheType type_;
  std::string recipe_;
  std::size_t channels_, targets_;
  std::atomic<std::int64_t> hits_ = 0, made_ = 0, damaged_ = 0;
  std::atomic<bool> writes_ = true;
};

}  // namespace petaflow::climate
