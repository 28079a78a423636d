// The messages by which an all-reduce is made, as a list of steps for each rank: what reductions differ in, and nothing
// but arithmetic on ranks and ranges.
//
// Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 2005 (ring, doubling, halving); Kurth et al., SC18, section V-A3 (two_level: every rank of a node reduces a share of
// the vector over the network); Demmel and Nguyen, "Parallel reproducible summation", IEEE ToC 2015: addition does not
// associate, but where the tree is fixed (tree), nothing else has to be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/slice.hpp"
#include "comm/nodes.hpp"

namespace petaflow {

/// Share number i of n shares of a slice, as even as possible.
Slice share_of(const Slice& all, std::int64_t i, std::int64_t n);

/// The shards [begin, end) of one rank: parts of a batch whose gradients are summed in a fixed tree.
struct ShardRange {
  int begin = 0, end = 0;
  int count() const { return end - begin; }
};

/// Shards dealt in order and as evenly as possible: rank r has [floor(r shards / ranks), floor((r + 1) shards /
/// ranks)).
ShardRange shards_of(int rank, int ranks, int shards);

/// Rank r has shard r alone.
std::vector<ShardRange> one_shard_each(int ranks);

/// One message or addition of one rank.  A rank holds the vector once or several times (pieces).
struct Step {
  enum class Kind : std::uint8_t {
    kSend,     // piece[slice] to peer
    kReceive,  // piece[slice] = what peer sends
    kCombine,  // piece[slice] += what peer sends
    kAdd,      // piece[slice] += other[slice]
    kCopy,     // piece[slice] = other[slice]
    kRound     // piece[slice] = what the peers of a kSend of it have
  };
  Kind kind = Kind::kSend;
  bool wide = false;  // a message in f32, however narrow others are
  int round = 0;      // steps of one round are messages at the same time, then additions and copies in their order
  int peer = 0;
  int piece = 0, other = 0;
  Slice slice;
};

/// The steps of one rank, by round; messages between two ranks come in the same order on both.  Afterwards piece 0
/// holds the sum of all pieces of all ranks, the same bits everywhere.
///
/// Narrow messages round numbers.  Where P is no power of two the first ones of some ranks are wide, so that none's
/// numbers are rounded more than floor(log2 P) + 1 times on their way into the sum and back (but in a ring).
using ReductionPlan = std::vector<Step>;

/// 2 (P - 1) rounds of 1 / P of the vector, the least traffic.
ReductionPlan ring_plan(int rank, int ranks, std::int64_t elements);

/// floor(log2 P) rounds of the whole vector, and two more where P is no power of 2: the fewest messages.
ReductionPlan doubling_plan(int rank, int ranks, std::int64_t elements);

/// The sum of numbered shards in one fixed order, whoever holds which: the same bits on any number of ranks.
///
/// A node of level l and number k is the sum of the shards [k 2^l, (k + 1) 2^l) that exist: left child + right child,
/// or the left child alone.  Where the children are on two ranks, slices of the vector take turns in which side
/// receives the other and adds (a + b = b + a keeps the bits), so that no rank has more to add than the others;
/// afterwards every slice goes back the way it came.  With one shard on each of 2^n ranks these are Rabenseifner's
/// recursive halving and doubling, nearest ranks first.
/// @param shards  of all ranks: contiguous, in order; may be empty but rank 0's
/// The pieces of a rank are its local_nodes().
ReductionPlan tree_plan(int rank, std::span<const ShardRange> shards, std::int64_t elements);
/// That of one_shard_each().
ReductionPlan halving_plan(int rank, int ranks, std::int64_t elements);

/// tree_plan() in two halves, between which every slice of the sum is with one rank, its owner.  Each of 2^n ranks
/// with one shard owns 1 / 2^n of the vector; of other numbers of ranks the last ones own more, up to a half, and a
/// rank without shards owns nothing.
/// Source: Rajbhandari et al., "ZeRO", SC20, section 5 (reduce-scatter of gradients, all-gather of weights).
struct OwnerPlans {
  ReductionPlan sum;       // of all pieces; afterwards piece 0 of the owner holds it
  ReductionPlan spread;    // of piece 0 from the owners to all
  std::vector<Slice> own;  // of this rank, rising
};
inline constexpr int kSlices = -1;  // every rank owns its slices
/// @param elements  of the vector
/// @param cuts      elements at which slices may begin, rising; empty: anywhere
/// @param owner     a rank with shards that owns the whole vector, or kSlices
OwnerPlans owner_plans(int rank, std::span<const ShardRange> shards, std::int64_t elements,
                       std::span<const std::int64_t> cuts, int owner = kSlices);

/// The largest nodes of the tree whose shards are all this rank's, from left to right: {level, number}.
struct TreeNode {
  int level = 0, number = 0;
};
std::vector<TreeNode> local_nodes(const ShardRange& mine);

/// Sums within nodes, each rank a share; sums of the shares over nodes, by all ranks at the same time; collects within
/// nodes.
/// @param nodes  with as many ranks each
ReductionPlan two_level_plan(int rank, const Nodes& nodes, std::int64_t elements);

}  // namespace petaflow
