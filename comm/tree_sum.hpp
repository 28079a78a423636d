// The sum of numbered shards in one fixed order, whoever holds which: the same bits on any number of ranks.
// Floating-point addition does not associate (Demmel and Nguyen, "Parallel reproducible summation", IEEE ToC 2015);
// where the tree is fixed, nothing else has to be.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.hpp"

namespace petaflow {

/// The shards [begin, end) of one rank.
struct ShardRange {
  int begin = 0, end = 0;
  int count() const { return end - begin; }
  bool operator==(const ShardRange&) const = default;
};

/// Shards dealt in order and as evenly as possible: shard s belongs to rank floor(s ranks / shards) or so.
ShardRange shards_of(int rank, int ranks, int shards);

/// A node of level l and number k is the sum of the shards [k 2^l, (k + 1) 2^l) that exist: left child + right child,
/// or the left child alone.  Nodes within a rank are added there; the rank of the left child receives the right child
/// and adds.
class TreeSum {
 public:
  /// @param ranges of all ranks: contiguous, in order, covering 0 to the number of shards; a range may be empty except
  /// rank 0's
  /// @param elements of every shard
  TreeSum(Communicator& comm, std::vector<ShardRange> ranges, std::int64_t elements);

  /// Adds the next shard of this rank, in order; the array is read only.
  void add(std::span<const float> shard);
  /// After all shards of this rank: sum = the whole tree, on every rank.
  void finish(std::span<float> sum);

 private:
  using Buffer = std::unique_ptr<float[]>;
  struct Node {
    int level = 0, number = 0;
    Buffer values;
  };

  Buffer take_buffer();
  void merge_right_into_left();
  int owner(int level, int number) const;  // the rank that holds a node: that of its first shard

  Communicator& comm_;
  std::vector<ShardRange> ranges_;
  std::int64_t elements_;
  int shards_ = 0, next_ = 0;
  std::vector<Node> nodes_;   // held by this rank, in order of shards; maximal
  std::vector<Buffer> free_;  // kept from step to step
};

}  // namespace petaflow
