#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "comm/device_sum.hpp"
#include "comm/gradient_sum.hpp"
#include "comm/node_sum_nccl.hpp"
#include "comm/ranks_nccl.hpp"

namespace petaflow {
namespace {

/// Between all ranks.
class NcclSum final : public DeviceSum {
 public:
  NcclSum(Communicator& comm, const Context& context, std::vector<Slice> buckets, const DeviceSumOptions& options)
      : overlap_(options.overlap),
        owners_(options.owners),
        ranks_(comm, context, std::move(buckets)),
        space_(context.space),
        over_(static_cast<std::size_t>(options.steps)) {
    for (const Slice& bucket : ranks_.buckets()) {
      if (const Slice own = owners_ ? ranks_.own_of(bucket) : bucket; own.size() > 0) own_.push_back(own);
    }
    ranks_.connect([this](const Slice& bucket, float* zeros) {
      sum(bucket, zeros);
      if (owners_) ranks_.gather(bucket, zeros);
    });
  }

  void begin(std::int64_t place, float* buffer) override {
    place_ = static_cast<std::size_t>(place);
    buffer_ = buffer;
    started_ = 0;
  }

  void ready_from(std::int64_t first) override {
    const std::vector<Slice>& buckets = ranks_.buckets();
    const auto ready = [&](const Slice& bucket) { return bucket.begin >= first && (overlap_ || first == 0); };
    if (started_ == buckets.size() || !ready(buckets[started_])) return;
    ranks_.follow_the_space();
    // One by one, not as a group of NCCL: a rank that fails sums the rest at once, and groups have to be the same.
    for (; started_ < buckets.size() && ready(buckets[started_]); ++started_) sum(buckets[started_], buffer_);
    if (started_ == buckets.size()) over_[place_].record(ranks_.stream());
  }

  void join(std::int64_t place) override { over_[static_cast<std::size_t>(place)].precede(space_.cuda_stream()); }

  const std::vector<Slice>& own() const override { return own_; }

  void spread(float* values) override {
    ranks_.follow_the_space();
    for (const Slice& bucket : ranks_.buckets()) ranks_.gather(bucket, values);
    spread_.record(ranks_.stream());
    spread_.precede(space_.cuda_stream());
  }

  void wait() override { ranks_.wait(); }

  std::string describe() const override { return ranks_.describe() + (owners_ ? ", each slice to its owner" : ""); }

 private:
  void sum(const Slice& bucket, float* buffer) {
    owners_ ? ranks_.scatter(bucket, buffer) : ranks_.sum(bucket, buffer);
  }

  bool overlap_, owners_;
  NcclRanks ranks_;
  ExecutionSpace space_;
  std::vector<Slice> own_;
  StreamEvent spread_;
  std::vector<StreamEvent> over_;  // of each place: its last sum
  std::size_t place_ = 0;
  float* buffer_ = nullptr;
  std::size_t started_ = 0;  // of the buckets
};

}  // namespace

std::string why_no_device_sum(const Transport& transport, bool nodes) {
  if (!transport.has_all_reduce()) return "messages are delayed ([inject])";
  return nodes ? why_no_node_sum(transport.nodes()) : "";
}

std::unique_ptr<DeviceSum> make_device_sum(Communicator& comm, const Context& context,
                                           std::span<const std::int64_t> ends, const DeviceSumOptions& options) {
  std::vector<Slice> buckets = cut_into_buckets(ends, options.bucket);
  if (options.nodes) return make_node_sum(comm, context, std::move(buckets), options);
  return std::make_unique<NcclSum>(comm, context, std::move(buckets), options);
}

}  // namespace petaflow
