// The sum of a flat gradient over micro-batches and ranks, sent in buckets while the backward pass still works on
// earlier layers: to all ranks, or each slice to one rank that owns it.
// Sources: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020,
// section 3.2; Rajbhandari et al., "ZeRO", SC20, section 5 (owners).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/reduction.hpp"
#include "comm/reduction_plan.hpp"

namespace petaflow {

struct GradientSumOptions {
  std::int64_t bucket = 1 << 18;   // smallest size of a bucket but the last, elements
  std::string reduction = "auto";  // as in choose_reduction(); in a fixed order "auto" or "tree"
  Wire wire = Wire::kF32;
  std::int64_t micro_batches = 1;  // of each rank in a step; in a fixed order its shards
  bool repeats = false;            // steps may take several micro-batches in the place of each
  bool overlap = true;  // buckets are sent as soon as they are final, otherwise at the end of the step's last backward
  bool owners = false;  // the sum of a slice goes to its owner alone; the order is that of a tree
  std::vector<std::int64_t> cuts = {};  // where owners' slices may begin, rising; empty: anywhere
  std::vector<int> owner_of = {};       // owners: of each array, which is a bucket then; empty: slices of every bucket
};

/// Buckets of a flat buffer in the order in which backward makes them final: each ends where an array does, and has at
/// least so many elements, but the last.
/// @param ends  of the arrays, rising
std::vector<Slice> cut_into_buckets(std::span<const std::int64_t> ends, std::int64_t least);
/// "7 buckets of 0.10 to 4.00 MiB"
std::string describe_buckets(std::span<const Slice> buckets);

/// How the sums of a bucket went, on this rank.
struct BucketTimes {
  std::string reduction;  // name of it
  std::int64_t elements = 0;
  double sent_bytes = 0;  // by this rank in one sum; 0: the medium does not say
  std::int64_t sums = 0;
  double under_way_s = 0;  // of all sums, from their start until this rank saw that they were over
  double exposed_s = 0;    // of that, where this rank did nothing but wait for messages, of this sum or others
};

/// Buckets are fixed when the object is made, so that all ranks start the same sums in the same order.
class GradientSum {
 public:
  /// In any order.
  /// @param ends  where arrays end in the flat buffer, rising; a bucket ends at one of them
  GradientSum(Communicator& comm, std::span<const std::int64_t> ends, const GradientSumOptions& options);
  /// In a fixed order, that of tree_plan(): every micro-batch is a shard.  The only one for owners.
  /// @param shards  of all ranks
  GradientSum(Communicator& comm, std::span<const std::int64_t> ends, const GradientSumOptions& options,
              std::span<const ShardRange> shards);

  /// Begins a step.
  /// @param buffer   null: messages have sizes alone, and every rank has one micro-batch
  /// @param repeats  so many micro-batches in the place of each, one after the other, are added first
  void begin(float* buffer, std::int64_t repeats = 1);
  /// In the running micro-batch the elements from `first` to the end of the buffer are final: adds them to those of
  /// earlier ones; in the last one starts the sums of the buckets that lie there, and lets those under way move on.
  void ready_from(std::int64_t first);
  /// The micro-batch is over: the next one may overwrite the buffer.
  void end_micro_batch();
  /// Lets all sums move on; whether the first that was not waited for yet is over.
  bool advance();
  /// After the last micro-batch.  Bucket by bucket, in the order in which they are sent: waits until
  /// buffer[begin, end) = the sum, then calls summed(begin, end), while later ones are still being summed.  With owners
  /// [begin, end) are the slices of own(), after which the bucket of `values` begins to go from owners to all, and all
  /// of it is there at the end.
  /// @param values   as long as the buffer; null: nothing goes to all, unless the buffer is null too
  /// @param updated  waits until values[begin, end) are what is to go to all; empty: they are when summed() returns
  /// @param all_summed  called behind the last summed(), before the first updated(); may be empty
  void finish(const std::function<void(std::int64_t, std::int64_t)>& summed, float* values = nullptr,
              const std::function<void(std::int64_t, std::int64_t)>& updated = {},
              const std::function<void()>& all_summed = {});
  /// With owners: all values from their owners to all ranks.  Collective.
  void spread(float* values);
  /// Calls wait(), which waits for messages that are not of these sums.  What it takes counts as exposed_s of every sum
  /// that is under way.
  void wait_beside(const std::function<void()>& wait);
  /// Adds to waited_s() such seconds for a rank; negative: the medium does not say for whom.
  void count_wait(int rank, double seconds);

  /// Slices whose sum this rank gets, bucket by bucket; everything where there are no owners.
  const std::vector<Slice>& own() const { return own_; }

  /// Buckets in the order in which they are sent.
  const std::vector<Slice>& buckets() const { return buckets_; }
  /// Since reset_times(), in the order of buckets().
  const std::vector<BucketTimes>& times() const { return times_; }
  /// Likewise, seconds in which this rank waited for messages of each rank; behind them those where the medium does not
  /// say for whom; none before there was a buffer.
  const std::vector<double>& waited_s() const { return waited_s_; }
  void reset_times();
  /// "7 buckets of 0.1 to 4.0 MiB by mpi": for the log.
  std::string describe() const;

 private:
  /// Where the gradient of a micro-batch goes: a stack of nodes of the tree, the last of which are added as they become
  /// siblings.
  struct MicroBatch {
    int to = 0;         // piece that takes it
    bool adds = false;  // or is it
    int merges = 0;     // so often the last piece is added to the one before it
  };
  void plan_micro_batches(std::int64_t repeats);
  void plan_shards(std::int64_t repeats);
  void take_memory(bool repeats, std::int64_t elements);
  void add_memory(std::int64_t elements);
  void take_micro_batch(const Slice& bucket);
  bool in_place() const { return micro_batches_.size() <= 1; }
  std::span<const Slice> own_of(std::size_t bucket) const;
  void start_spread(std::size_t bucket, float* values);
  void finish_spreads();
  bool advance_spreads();
  void wait(std::span<const std::unique_ptr<Reduction<float>>> reductions, const std::function<bool()>& over,
            const char* call);

  Communicator& comm_;
  bool overlap_;
  std::vector<Slice> buckets_;
  std::vector<BucketTimes> times_;  // of each bucket
  std::vector<double> waited_s_;
  std::vector<std::unique_ptr<Reduction<float>>> sums_;     // of each bucket
  std::vector<std::unique_ptr<Reduction<float>>> spreads_;  // likewise, from its owners to all; empty: there are none
  std::vector<Slice> own_;
  std::vector<std::size_t> own_end_;      // of each bucket: its slices end there in own_
  std::optional<ShardRange> shards_;      // of this rank, in a fixed order
  std::int64_t plain_micro_batches_ = 1;  // of a step without repeats, in any order
  std::int64_t repeats_ = 0;              // of micro_batches_
  std::vector<MicroBatch> micro_batches_;
  std::vector<std::unique_ptr<float[]>> memory_;  // of pieces; not used where the only one is the buffer
  std::vector<float*> pieces_;                    // of the bucket that is started

  float* buffer_ = nullptr;
  std::size_t micro_batch_ = 0;
  std::size_t taken_ = 0;               // buckets of the running micro-batch
  std::size_t started_ = 0, over_ = 0;  // sums
  std::vector<double> start_s_;         // of each bucket's sum, until it is seen to be over; then negative
  double waits_since_s_ = -1;           // negative: this rank does not wait
  std::size_t spread_ = 0;              // spreads that were started
};

}  // namespace petaflow
