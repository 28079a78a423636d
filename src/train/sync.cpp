#include "train/sync.hpp"

#include <algorithm>
#include <utility>

#include "train/weights.hpp"

namespace petaflow {
namespace {

std::vector<std::int64_t> ends_of(const std::vector<Parameter>& parameters) {
  std::vector<std::int64_t> ends;
  for (const Parameter& parameter : parameters) ends.push_back(parameter.offset + parameter.spec.elements());
  return ends;
}

/// In a fixed order every pass is a shard of the batch.
GradientSum make_sum(Communicator& comm, const TrainOptions& train, const CommOptions& options,
                     const std::vector<Parameter>& parameters) {
  GradientSumOptions sum;
  sum.bucket = std::max<std::int64_t>(1, static_cast<std::int64_t>(options.bucket_mb * (1 << 18)));
  sum.reduction = options.reduction;
  sum.wire = options.wire;
  sum.overlap = options.overlap;
  if (!train.deterministic && !options.fixed_order && options.reduction != "tree") {
    return {comm, ends_of(parameters), sum};
  }
  const int count = train.deterministic ? static_cast<int>(train.shards) : comm.size();
  std::vector<ShardRange> shards;
  for (int rank = 0; rank < comm.size(); ++rank) shards.push_back(shards_of(rank, comm.size(), count));
  return {comm, ends_of(parameters), sum, shards};
}

template <class From, class To>
void copy(const From& from, const To& to, std::int64_t begin, std::int64_t end) {
  const auto range = std::pair(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  Kokkos::deep_copy(Kokkos::subview(to, range), Kokkos::subview(from, range));
}

}  // namespace

GradientExchange::GradientExchange(Communicator& comm, const TrainOptions& train, const CommOptions& options,
                                   const std::vector<Parameter>& parameters)
    : gradient_("petaflow::gradient", static_cast<std::size_t>(elements_of(parameters))),
      host_(Kokkos::create_mirror_view(gradient_)),
      sum_(make_sum(comm, train, options, parameters)),
      leaves_the_device_(comm.size() > 1 || train.deterministic) {}

void GradientExchange::begin_step() {
  sum_.begin(host_.data());
  ready_ = static_cast<std::int64_t>(gradient_.extent(0));
}

void GradientExchange::ready_from(std::int64_t first) {
  if (!leaves_the_device_) return;
  copy(gradient_, host_, first, ready_);
  ready_ = first;
  sum_.ready_from(first);
}

void GradientExchange::end_pass() {
  ready_from(0);
  sum_.end_pass();
  ready_ = static_cast<std::int64_t>(gradient_.extent(0));
}

void GradientExchange::finish(const std::function<void(std::int64_t, std::int64_t)>& summed) {
  sum_.finish([&](std::int64_t begin, std::int64_t end) {
    if (leaves_the_device_) copy(host_, gradient_, begin, end);
    summed(begin, end);
  });
}

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

}  // namespace petaflow
