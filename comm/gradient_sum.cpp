#include "comm/gradient_sum.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.hpp"
#include "comm/counted_wait.hpp"
#include "comm/reduction_choice.hpp"

namespace petaflow {

std::vector<Slice> cut_into_buckets(std::span<const std::int64_t> ends, std::int64_t least) {
  PETAFLOW_REQUIRE(!ends.empty() && least > 0, "{} arrays, buckets of {}", ends.size(), least);
  std::vector<Slice> buckets;
  std::int64_t end = ends.back();
  for (std::size_t i = ends.size(); i-- > 0;) {
    const std::int64_t begin = i == 0 ? 0 : ends[i - 1];
    PETAFLOW_REQUIRE(begin <= ends[i], "array {} ends at {}, the one before at {}", i, ends[i], begin);
    if (i > 0 && end - begin < least) continue;
    if (end > begin) buckets.push_back({begin, end});
    end = begin;
  }
  return buckets;
}

std::string describe_buckets(std::span<const Slice> buckets) {
  const auto mib = [](const Slice& bucket) { return static_cast<double>(bucket.size()) / (1 << 18); };
  const auto [least, most] = std::ranges::minmax(buckets, {}, &Slice::size);
  return fmt::format("{} {} of {} MiB", buckets.size(), buckets.size() == 1 ? "bucket" : "buckets",
                     least.size() == most.size() ? fmt::format("{:.2f}", mib(most))
                                                 : fmt::format("{:.2f} to {:.2f}", mib(least), mib(most)));
}

GradientSum::GradientSum(Communicator& comm, std::span<const std::int64_t> ends, const GradientSumOptions& options)
    : comm_(comm),
      overlap_(options.overlap),
      buckets_(cut_into_buckets(ends, options.bucket)),
      plain_micro_batches_(options.micro_batches) {
  take_memory(options.repeats, ends.back());
  PETAFLOW_REQUIRE(!options.owners, "owners without shards");
  own_ = buckets_;
  for (const Slice& bucket : buckets_) {
    own_end_.push_back(own_end_.size() + 1);
    const ReductionImpl& impl = choose_reduction(options.reduction, comm, options.wire, bucket.size());
    times_.push_back({.reduction = impl.name});
    sums_.push_back(
        std::make_unique<Reduction<float>>(make_reduction(impl, comm, comm.new_tag(), options.wire, bucket.size())));
  }
  reset_times();
}

GradientSum::GradientSum(Communicator& comm, std::span<const std::int64_t> ends, const GradientSumOptions& options,
                         std::span<const ShardRange> shards)
    : comm_(comm),
      overlap_(options.overlap),
      buckets_(cut_into_buckets(ends, options.owner_of.empty() ? options.bucket : 1)) {
  PETAFLOW_REQUIRE(
      options.reduction == "auto" || options.reduction == "tree" || (options.owners && options.reduction == "halving"),
      "{} has no fixed order", options.reduction);
  PETAFLOW_REQUIRE(static_cast<int>(shards.size()) == comm.size() && shards[0].count() > 0,
                   "{} ranges of shards for {} ranks", shards.size(), comm.size());
  PETAFLOW_REQUIRE(options.owner_of.empty() || options.owner_of.size() == ends.size(), "{} owners of {} arrays",
                   options.owner_of.size(), ends.size());
  shards_ = shards[static_cast<std::size_t>(comm.rank())];
  take_memory(options.repeats, ends.back());
  const auto add = [&](const ReductionPlan& plan, Wire wire) {
    return std::make_unique<Reduction<float>>(comm.transport(), plan, comm.new_tag(), ReduceOp::kSum, wire);
  };
  for (const Slice& bucket : buckets_) {
    if (!options.owners) {
      times_.push_back({.reduction = "tree"});
      own_.push_back(bucket);
      sums_.push_back(add(tree_plan(comm.rank(), shards, bucket.size()), options.wire));
    } else {
      std::vector<std::int64_t> cuts;
      for (const std::int64_t cut : options.cuts) {
        if (bucket.begin <= cut && cut < bucket.end) cuts.push_back(cut - bucket.begin);
      }
      int owner = kSlices;
      if (!options.owner_of.empty()) {
        const auto array = std::ranges::find(ends, bucket.end) - ends.begin();
        owner = options.owner_of[static_cast<std::size_t>(array)];
      }
      const OwnerPlans plans = owner_plans(comm.rank(), shards, bucket.size(), cuts, owner);
      times_.push_back(
          {.reduction = owner == kSlices ? "tree, each slice to its owner" : "tree, each layer to its owner"});
      for (const Slice& slice : plans.own) own_.push_back({bucket.begin + slice.begin, bucket.begin + slice.end});
      sums_.push_back(add(plans.sum, options.wire));
      spreads_.push_back(add(plans.spread, Wire::kF32));
    }
    own_end_.push_back(own_.size());
  }
  reset_times();
}

void GradientSum::reset_times() {
  for (std::size_t i = 0; i < times_.size(); ++i) {
    times_[i] = {times_[i].reduction, buckets_[i].size(), sums_[i]->sent_bytes()};
  }
  std::ranges::fill(waited_s_, 0.0);
  start_s_.assign(times_.size(), -1.0);
}

void GradientSum::plan_micro_batches(std::int64_t repeats) {
  if (repeats == repeats_) return;
  repeats_ = repeats;
  micro_batches_.clear();
  if (shards_) {
    plan_shards(repeats);
    return;
  }
  micro_batches_.resize(static_cast<std::size_t>(plain_micro_batches_ * repeats));
  for (std::size_t micro_batch = 1; micro_batch < micro_batches_.size(); ++micro_batch)
    micro_batches_[micro_batch].adds = true;
}

void GradientSum::plan_shards(std::int64_t repeats) {
  std::size_t before = 0;
  for (int s = shards_->begin; s < shards_->end; ++s) {
    const std::size_t after = local_nodes({shards_->begin, s + 1}).size();
    const auto last = static_cast<int>(before);
    const int merges = static_cast<int>(before) + 1 - static_cast<int>(after);  // nodes that this shard completes
    if (repeats == 1 && merges > 0) {
      micro_batches_.push_back({.to = last - 1, .adds = true, .merges = merges - 1});
    } else {
      micro_batches_.push_back({.to = last});
      for (std::int64_t repeat = 1; repeat < repeats; ++repeat) micro_batches_.push_back({.to = last, .adds = true});
      micro_batches_.back().merges = merges;
    }
    before = after;
  }
}

// A step with repeats may need more than one without, whose plan stays.
void GradientSum::take_memory(bool repeats, std::int64_t elements) {
  if (repeats) {
    plan_micro_batches(2);
    add_memory(elements);
  }
  plan_micro_batches(1);
  add_memory(elements);
}

// Makes as many pieces as the present plan needs; those of earlier plans stay.
void GradientSum::add_memory(std::int64_t elements) {
  if (in_place()) return;
  for (const MicroBatch& micro_batch : micro_batches_) {
    while (std::ssize(memory_) <= micro_batch.to) {
      memory_.push_back(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(elements)));
    }
  }
}

std::string GradientSum::describe() const {
  std::map<std::string, std::vector<Slice>> buckets;
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets[times_[i].reduction].push_back(buckets_[i]);
  std::string text;
  for (const auto& [name, slices] : buckets)
    text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", describe_buckets(slices), name);
  return text;
}

void GradientSum::begin(float* buffer, std::int64_t repeats) {
  plan_micro_batches(repeats);
  PETAFLOW_REQUIRE(
      in_place() ||
          std::ranges::all_of(micro_batches_, [this](const MicroBatch& each) { return each.to < std::ssize(memory_); }),
      "{} micro-batches in the place of one, without memory for them", repeats);
  buffer_ = buffer;
  if (buffer_ != nullptr) waited_s_.resize(static_cast<std::size_t>(comm_.size()) + 1);
  micro_batch_ = taken_ = started_ = over_ = spread_ = 0;
}

// Adds a bucket of the running micro-batch to what is there.
void GradientSum::take_micro_batch(const Slice& bucket) {
  if (in_place()) return;
  const MicroBatch& micro_batch = micro_batches_[micro_batch_];
  const auto add = [&](float* to, const float* from) {
    for (std::int64_t i = bucket.begin; i < bucket.end; ++i) to[i] += from[i];
  };
  float* const to = memory_[static_cast<std::size_t>(micro_batch.to)].get();
  if (micro_batch.adds) {
    add(to, buffer_);
  } else {
    std::copy(buffer_ + bucket.begin, buffer_ + bucket.end, to + bucket.begin);
  }
  for (int merge = 0; merge < micro_batch.merges; ++merge) {
    const auto last = static_cast<std::size_t>(micro_batch.to - merge);
    add(memory_[last - 1].get(), memory_[last].get());
  }
}

void GradientSum::ready_from(std::int64_t first) {
  for (; taken_ < buckets_.size() && buckets_[taken_].begin >= first; ++taken_) {
    if (micro_batch_ < micro_batches_.size()) take_micro_batch(buckets_[taken_]);
  }
  const bool last = micro_batch_ + 1 >= micro_batches_.size();
  if (last && (overlap_ || first == 0)) {
    for (; started_ < taken_; ++started_) {
      const std::int64_t begin = buckets_[started_].begin;
      pieces_.clear();
      if (in_place()) {
        pieces_.push_back(buffer_ == nullptr ? nullptr : buffer_ + begin);
      } else {
        for (const auto& piece : memory_) pieces_.push_back(piece.get() + begin);
      }
      start_s_[started_] = comm_.transport().now_s();
      sums_[started_]->start(pieces_);
    }
  }
  advance();
}

void GradientSum::end_micro_batch() {
  ready_from(0);
  micro_batch_ += 1;
  if (micro_batch_ < micro_batches_.size()) taken_ = 0;
}

bool GradientSum::advance() {
  bool first_is_over = true;
  for (std::size_t i = over_; i < started_; ++i) {
    const bool is_over = sums_[i]->advance();
    if (i == over_) first_is_over = is_over;
    if (is_over && start_s_[i] >= 0) {
      const double now_s = comm_.transport().now_s();
      times_[i].sums += 1;
      times_[i].under_way_s += now_s - start_s_[i];
      if (waits_since_s_ >= 0) times_[i].exposed_s += now_s - waits_since_s_;
      start_s_[i] = -1;
    }
  }
  advance_spreads();
  return first_is_over;
}

bool GradientSum::advance_spreads() {
  bool over = true;
  for (std::size_t i = 0; i < spread_; ++i) over = spreads_[i]->advance() && over;
  return over;
}

// Sums that end meanwhile are exposed until then, which advance() counts.
void GradientSum::wait_beside(const std::function<void()>& wait) {
  waits_since_s_ = comm_.transport().now_s();
  wait();
  const double now_s = comm_.transport().now_s();
  for (std::size_t i = over_; i < started_; ++i) {
    if (start_s_[i] >= 0) times_[i].exposed_s += now_s - waits_since_s_;
  }
  waits_since_s_ = -1;
}

void GradientSum::count_wait(int rank, double seconds) {
  if (!waited_s_.empty()) add_wait(waited_s_, rank, seconds);
}

// Waits until over(), and counts for whom: the rank that the first of some reductions needs a message of.
void GradientSum::wait(std::span<const std::unique_ptr<Reduction<float>>> reductions, const std::function<bool()>& over,
                       const char* call) {
  const auto peer = [reductions] {
    int first = -1;
    for (std::size_t i = 0; first < 0 && i < reductions.size(); ++i) first = reductions[i]->waits_for();
    return first;
  };
  const auto count = [this](int rank, double seconds) { count_wait(rank, seconds); };
  const auto waiting = [&] { counted_wait(comm_.transport(), over, peer, count, call); };
  wait_beside(std::ref(waiting));  // a reference fits into std::function without memory
}

void GradientSum::start_spread(std::size_t bucket, float* values) {
  spreads_[bucket]->start(std::array{values == nullptr ? nullptr : values + buckets_[bucket].begin});
  spread_ = bucket + 1;
}

void GradientSum::finish_spreads() {
  wait(spreads_, [this] { return advance_spreads(); }, "all-gather");
}

void GradientSum::spread(float* values) {
  comm_.transport().begin_collective();
  for (std::size_t bucket = 0; bucket < spreads_.size(); ++bucket) start_spread(bucket, values);
  finish_spreads();
}

std::span<const Slice> GradientSum::own_of(std::size_t bucket) const {
  const std::size_t begin = bucket == 0 ? 0 : own_end_[bucket - 1];
  return std::span(own_).subspan(begin, own_end_[bucket] - begin);
}

void GradientSum::finish(const std::function<void(std::int64_t, std::int64_t)>& summed, float* values,
                         const std::function<void(std::int64_t, std::int64_t)>& updated,
                         const std::function<void()>& all_summed) {
  if (micro_batches_.empty()) ready_from(0);  // this rank has no shard
  comm_.transport().begin_collective();
  const bool spreads = (values != nullptr || buffer_ == nullptr) && !spreads_.empty();
  for (; over_ < buckets_.size(); ++over_) {
    wait(std::span(sums_).subspan(over_, 1), [this] { return advance(); }, "all-reduce");
    for (const Slice& slice : own_of(over_)) {
      if (!in_place()) {
        std::copy(memory_[0].get() + slice.begin, memory_[0].get() + slice.end, buffer_ + slice.begin);
      }
      summed(slice.begin, slice.end);
    }
    if (spreads && !updated) start_spread(over_, values);
  }
  if (all_summed) all_summed();
  while (spreads && spread_ < buckets_.size()) {
    for (const Slice& slice : own_of(spread_)) updated(slice.begin, slice.end);
    start_spread(spread_, values);
  }
  if (spread_ > 0) finish_spreads();
}

}  // namespace petaflow
