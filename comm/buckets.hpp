// The sum of a flat gradient over ranks, sent in buckets while the backward pass still works on earlier layers.
// Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020, section 3.2.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"

namespace petaflow {

/// Buckets are fixed when the object is made, so that all ranks start the same collectives in the same order.
class BucketedSum {
 public:
  /// @param ends    where arrays end in the flat buffer, rising; a bucket ends at one of them
  /// @param bucket  smallest size of a bucket but the last, elements
  BucketedSum(Communicator& comm, std::span<const std::int64_t> ends, std::int64_t bucket);

  /// Begins a step: nothing of the buffer is final.
  void begin(float* buffer);
  /// Elements from `first` to the end of the buffer are final: starts the sums of the buckets that lie there, and lets
  /// those under way move on.
  void ready_from(std::int64_t first);
  /// The whole buffer is final.  Bucket by bucket, in the order in which they are sent: waits until
  /// buffer[begin, end) = sum over ranks, then calls summed(begin, end), while later ones are still being summed.
  void finish(const std::function<void(std::int64_t, std::int64_t)>& summed);

  /// Buckets [begin, end), in the order in which they are sent.
  struct Range {
    std::int64_t begin = 0, end = 0;
    bool operator==(const Range&) const = default;
  };
  const std::vector<Range>& buckets() const { return buckets_; }

 private:
  std::span<float> values(const Range& range) const {
    return {buffer_ + range.begin, static_cast<std::size_t>(range.end - range.begin)};
  }

  Communicator& comm_;
  std::vector<Range> buckets_;
  float* buffer_ = nullptr;
  std::size_t started_ = 0;
};

}  // namespace petaflow
