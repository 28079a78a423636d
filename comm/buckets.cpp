#include "comm/buckets.hpp"

#include "base/error.hpp"

namespace petaflow {

BucketedSum::BucketedSum(Communicator& comm, std::span<const std::int64_t> ends, std::int64_t bucket) : comm_(comm) {
  PETAFLOW_REQUIRE(!ends.empty() && bucket > 0, "{} arrays, buckets of {}", ends.size(), bucket);
  std::int64_t end = ends.back();
  for (std::size_t i = ends.size(); i-- > 0;) {
    const std::int64_t begin = i == 0 ? 0 : ends[i - 1];
    PETAFLOW_REQUIRE(begin <= ends[i], "array {} ends at {}, the one before at {}", i, ends[i], begin);
    if (i > 0 && end - begin < bucket) continue;
    if (end > begin) buckets_.push_back({begin, end});
    end = begin;
  }
}

void BucketedSum::begin(float* buffer) {
  buffer_ = buffer;
  started_ = 0;
}

void BucketedSum::ready_from(std::int64_t first) {
  for (; started_ < buckets_.size() && buckets_[started_].begin >= first; ++started_) {
    comm_.start_all_reduce_sum(values(buckets_[started_]));
  }
  comm_.progress();
}

void BucketedSum::finish(const std::function<void(std::int64_t, std::int64_t)>& summed) {
  ready_from(0);
  for (const Range& bucket : buckets_) {
    comm_.wait_all_reduce_sum(values(bucket));
    summed(bucket.begin, bucket.end);
  }
}

}  // namespace petaflow
