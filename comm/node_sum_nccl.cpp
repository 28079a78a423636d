#include "comm/node_sum_nccl.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <Kokkos_Core.hpp>

#include "base/device.hpp"
#include "base/error.hpp"
#include "comm/gradient_sum.hpp"
#include "comm/ranks_nccl.hpp"

namespace petaflow {
namespace {

/// This rank among those of its node.
int number_in_node(const Transport& transport) {
  const std::span<const int> ranks = transport.nodes().ranks(transport.nodes().of(transport.rank()));
  return static_cast<int>(std::ranges::find(ranks, transport.rank()) - ranks.begin());
}

class NodeSum final : public DeviceSum {
 public:
  NodeSum(Communicator& comm, const Context& context, std::vector<Slice> buckets, const DeviceSumOptions& options)
      : comm_(comm),
        space_(context.space),
        overlap_(options.overlap),
        node_(comm.split(comm.transport().nodes().of(comm.rank()))),
        ranks_(*node_, context, std::move(buckets)),
        shares_(ranks_.buckets().size()) {
    PETAFLOW_REQUIRE(!options.owners, "owners of sums that every node has");
    std::int64_t end = 0;
    std::vector<std::int64_t> ends;
    for (std::size_t bucket = shares_.size(); bucket-- > 0;) {
      shares_[bucket] = {end, end + ranks_.own_of(ranks_.buckets()[bucket]).size()};
      ends.push_back(end = shares_[bucket].end);
    }
    for (std::int64_t place = 0; place < options.steps; ++place)
      steps_.push_back(std::make_unique<Step>(comm.split(number_in_node(comm.transport())), ends));
    ranks_.connect([this](const Slice& bucket, float* zeros) {
      ranks_.scatter(bucket, zeros);
      ranks_.gather(bucket, zeros);
    });
  }

  void begin(std::int64_t place, float* buffer) override {
    running_ = steps_[static_cast<std::size_t>(place)].get();
    running_->buffer = buffer;
    running_->started = running_->arrived = 0;
    running_->sum.begin(running_->shares.data());
  }

  void ready_from(std::int64_t first) override {
    Step& step = *running_;
    const std::vector<Slice>& buckets = ranks_.buckets();
    const auto ready = [&](const Slice& bucket) { return bucket.begin >= first && (overlap_ || first == 0); };
    if (step.started == buckets.size() || !ready(buckets[step.started])) return;
    ranks_.follow_the_space();
    for (; step.started < buckets.size() && ready(buckets[step.started]); ++step.started) {
      ranks_.scatter(buckets[step.started], step.buffer);
      copy_share(step, step.started, cudaMemcpyDeviceToHost);
      step.left[step.started].record(ranks_.stream());
    }
  }

  bool asks_the_host() const override { return true; }

  void progress() override {
    for (const auto& step : steps_) progress(*step);
  }

  void join(std::int64_t place) override {
    Step& step = *steps_[static_cast<std::size_t>(place)];
    const auto arrived = [&] {
      progress();
      return step.arrived == shares_.size();
    };
    comm_.transport().wait([&] { return ranks_.look(arrived); }, kSumsByNccl);
    std::size_t bucket = 0;
    const auto gather_from = [&](std::int64_t begin) {  // shares that are empty, too, of which others may have theirs
      for (; bucket < shares_.size() && shares_[bucket].begin >= begin; ++bucket) {
        copy_share(step, bucket, cudaMemcpyHostToDevice);
        ranks_.gather(ranks_.buckets()[bucket], step.buffer);
      }
    };
    step.sum.finish([&](std::int64_t begin, std::int64_t) { gather_from(begin); });
    gather_from(0);
    over_.record(ranks_.stream());
    over_.precede(space_.cuda_stream());
  }

  const std::vector<Slice>& own() const override { return ranks_.buckets(); }

  void spread(float* /*values*/) override { failure("all ranks have all sums"); }

  void wait() override { ranks_.wait(); }

  std::string describe() const override {
    return fmt::format("{} on each node, between nodes the shares of {} ranks in {}", ranks_.describe(), node_->size(),
                       steps_.front()->sum.describe());
  }

 private:
  /// What one step has under way.
  struct Step {
    /// @param across  the ranks of other nodes with this one's share
    Step(std::unique_ptr<Communicator> ranks, const std::vector<std::int64_t>& ends)
        : across(std::move(ranks)),
          shares("petaflow::node_sum", static_cast<std::size_t>(ends.back())),
          sum(*across, ends, {.bucket = 1}),
          left(ends.size()) {}

    std::unique_ptr<Communicator> across;  // of its own: steps reach their sums in another order on other ranks
    Kokkos::View<float*, StagingSpace> shares;
    GradientSum sum;
    std::vector<StreamEvent> left;  // of each bucket: its share is in the host's memory
    float* buffer = nullptr;
    std::size_t started = 0, arrived = 0;  // of the buckets
  };

  void progress(Step& step) const {
    for (; step.arrived < step.started && step.left[step.arrived].reached(); ++step.arrived)
      step.sum.ready_from(shares_[step.arrived].begin);
    step.sum.advance();
  }

  /// Between the buffer and the host's memory, behind what the stream of sums was given.
  void copy_share(Step& step, std::size_t bucket, cudaMemcpyKind direction) const {
    const Slice own = ranks_.own_of(ranks_.buckets()[bucket]);
    float* to = step.shares.data() + shares_[bucket].begin;
    float* from = step.buffer + own.begin;
    if (direction == cudaMemcpyHostToDevice) std::swap(to, from);
    check_cuda(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(own.size()) * sizeof(float), direction, ranks_.stream()),
        "cudaMemcpyAsync");
  }

  Communicator& comm_;
  ExecutionSpace space_;
  bool overlap_;
  std::unique_ptr<Communicator> node_;
  NcclRanks ranks_;            // of the node
  std::vector<Slice> shares_;  // this rank's of each bucket, one behind the other, from the first in the buffer on
  std::vector<std::unique_ptr<Step>> steps_;
  Step* running_ = nullptr;
  StreamEvent over_;
};

}  // namespace

std::string why_no_node_sum(const Nodes& nodes) {
  if (nodes.count() == 1) return "all ranks share a node";
  for (int node = 1; node < nodes.count(); ++node) {
    if (nodes.ranks(node).size() != nodes.ranks(0).size())
      return fmt::format("nodes have {} and {} ranks", nodes.ranks(0).size(), nodes.ranks(node).size());
  }
  return "";
}

std::unique_ptr<DeviceSum> make_node_sum(Communicator& comm, const Context& context, std::vector<Slice> buckets,
                                         const DeviceSumOptions& options) {
  return std::make_unique<NodeSum>(comm, context, std::move(buckets), options);
}

}  // namespace petaflow
