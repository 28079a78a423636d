#include "train/sync.hpp"

#include <algorithm>
#include <utility>

#include "comm/buckets.hpp"
#include "comm/tree_sum.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

using DeviceArray = Kokkos::View<float*, MemorySpace>;

/// Communicators take host memory; where MemorySpace is the host, the mirror is the array itself and copies are
/// nothing.
class OverlappedExchange final : public GradientExchange {
 public:
  OverlappedExchange(Communicator& comm, const std::vector<Parameter>& parameters, double bucket_mb)
      : gradient_("petaflow::gradient", static_cast<std::size_t>(elements_of(parameters))),
        host_(Kokkos::create_mirror_view(gradient_)),
        sum_(comm, ends_of(parameters), std::max<std::int64_t>(1, static_cast<std::int64_t>(bucket_mb * (1 << 18)))),
        communicates_(comm.size() > 1) {}

  void begin_step() override {
    sum_.begin(host_.data());
    ready_ = static_cast<std::int64_t>(gradient_.extent(0));
  }
  float* gradient() override { return gradient_.data(); }
  void ready_from(std::int64_t first) override {
    if (!communicates_) return;
    copy(gradient_, host_, first, ready_);
    ready_ = first;
    sum_.ready_from(first);
  }
  void end_pass() override { ready_from(0); }
  void finish(const std::function<void(std::int64_t, std::int64_t)>& summed) override {
    sum_.finish([&](std::int64_t begin, std::int64_t end) {
      if (communicates_) copy(host_, gradient_, begin, end);
      summed(begin, end);
    });
  }

 private:
  template <class From, class To>
  static void copy(const From& from, const To& to, std::int64_t begin, std::int64_t end) {
    const auto range = std::pair(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    Kokkos::deep_copy(Kokkos::subview(to, range), Kokkos::subview(from, range));
  }
  static std::vector<std::int64_t> ends_of(const std::vector<Parameter>& parameters) {
    std::vector<std::int64_t> ends;
    for (const Parameter& parameter : parameters) ends.push_back(parameter.offset + parameter.spec.elements());
    return ends;
  }

  DeviceArray gradient_;
  DeviceArray::HostMirror host_;
  BucketedSum sum_;
  bool communicates_;
  std::int64_t ready_ = 0;
};

class TreeExchange final : public GradientExchange {
 public:
  TreeExchange(Communicator& comm, const std::vector<Parameter>& parameters, int shards)
      : gradient_("petaflow::gradient", static_cast<std::size_t>(elements_of(parameters))),
        host_(Kokkos::create_mirror_view(gradient_)),
        sum_(comm, ranges_of(comm.size(), shards), elements_of(parameters)) {}

  void begin_step() override {}
  float* gradient() override { return gradient_.data(); }
  void ready_from(std::int64_t) override {}
  void end_pass() override {
    Kokkos::deep_copy(host_, gradient_);
    sum_.add({host_.data(), host_.extent(0)});
  }
  void finish(const std::function<void(std::int64_t, std::int64_t)>& summed) override {
    sum_.finish({host_.data(), host_.extent(0)});
    Kokkos::deep_copy(gradient_, host_);
    summed(0, static_cast<std::int64_t>(gradient_.extent(0)));
  }

 private:
  static std::vector<ShardRange> ranges_of(int ranks, int shards) {
    std::vector<ShardRange> ranges;
    for (int rank = 0; rank < ranks; ++rank) ranges.push_back(shards_of(rank, ranks, shards));
    return ranges;
  }

  DeviceArray gradient_;
  DeviceArray::HostMirror host_;
  TreeSum sum_;
};

}  // namespace

BatchShare share_of_batch(const TrainOptions& options, int rank, int ranks) {
  BatchShare share;
  if (options.deterministic) {
    share.pass = options.batch / options.shards;
    const ShardRange shards = shards_of(rank, ranks, static_cast<int>(options.shards));
    share.begin = shards.begin * share.pass;
    share.end = shards.end * share.pass;
    share.passes = shards.count();
    share.first_part = shards.begin;
    share.parts = options.shards;
  } else {
    share.pass = (options.batch + ranks - 1) / ranks;
    const ShardRange slots = shards_of(rank, ranks, static_cast<int>(options.batch));
    share.begin = slots.begin;
    share.end = slots.end;
  }
  return share;
}

std::unique_ptr<GradientExchange> make_gradient_exchange(Communicator& comm, const TrainOptions& options,
                                                         double bucket_mb, const std::vector<Parameter>& parameters) {
  if (options.deterministic) {
    return std::make_unique<TreeExchange>(comm, parameters, static_cast<int>(options.shards));
  }
  return std::make_unique<OverlappedExchange>(comm, parameters, bucket_mb);
}

}  // namespace petaflow
