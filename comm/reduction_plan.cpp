#include "comm/reduction_plan.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.hpp"

namespace petaflow {
namespace {

using Kind = Step::Kind;

/// Steps of one rank in the making; empty slices give none.
class Builder {
 public:
  void add(Kind kind, const Slice& slice, int peer, int piece = 0, int other = 0, bool wide = false) {
    if (slice.size() > 0) steps_.push_back({kind, wide, round_, peer, piece, other, slice});
  }
  void next_round() { ++round_; }
  ReductionPlan take() { return std::move(steps_); }

 private:
  ReductionPlan steps_;
  int round_ = 0;
};

int log2_up(int n) { return n <= 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1)); }

/// Where a node of the tree is while it is summed: on which rank, in which of its pieces.
struct Place {
  int rank = -1, piece = 0;
  bool operator==(const Place&) const = default;
};

/// A message of the tree, which goes back the same way with the sum.
struct Merge {
  Place from, to;
  Slice slice;
};

/// Messages and additions of the tree, level by level.
struct TreeSteps {
  struct Addition {
    int rank = 0, piece = 0, other = 0;
    Slice slice;
  };
  struct Level {
    bool wide = false;  // messages of merges
    std::vector<Merge> merges;
    std::vector<Addition> additions;
  };
  std::vector<Level> levels;
  std::vector<std::pair<Place, Slice>> roots;
};

/// Adds a message to those of a level; neighbouring slices that go the same way are one.
void add_merge(std::vector<Merge>& merges, std::size_t first, const Place& from, const Place& to, const Slice& slice) {
  for (std::size_t i = merges.size(); i-- > first;) {
    Merge& merge = merges[i];
    if (merge.from == from && merge.to == to && merge.slice.end == slice.begin) {
      merge.slice.end = slice.end;
      return;
    }
  }
  merges.push_back({from, to, slice});
}

/// Who holds which slices of which nodes.  Slices are halves of halves of the vector, 2^bits() of them: at the j-th
/// level that has merges between ranks, bit j of a slice's number, from the highest on, says which side receives.  So
/// what a rank receives at the first are neighbours, one message; and all slices whose first bits are the same, a
/// block, are together until then.
class Tree {
 public:
  /// @param owner  as in owner_plans()
  Tree(std::span<const ShardRange> shards, std::int64_t elements, int owner)
      : shards_(shards), count_(shards.back().end), levels_(log2_up(count_)), deepest_(levels_), owner_(owner) {
    int active = 0;  // ranks with shards
    for (const ShardRange& range : shards) {
      if (range.count() > 0) ++active;
      if (range.end < count_) {  // the border to the next rank lies inside of a node of this level
        deepest_ = std::min(deepest_, std::countr_zero(static_cast<unsigned>(range.end)));
      }
    }
    // Shorter slices than this cost more in messages than they save in additions.
    constexpr std::int64_t kShortest = 256;
    bits_ = std::min(levels_ - deepest_, log2_up(active));
    narrow_levels_ = std::bit_width(static_cast<unsigned>(active)) - 1;
    while (bits_ > 0 && elements >> bits_ < kShortest) --bits_;
    if (owner != kSlices) bits_ = 0;
  }

  int count() const { return count_; }
  int levels() const { return levels_; }
  int bits() const { return bits_; }
  /// Whether messages into nodes of the level above are wide.
  bool is_wide(int level) const { return levels_ - level > narrow_levels_; }
  /// Blocks of slices that are together below a level: 2^blocks().
  int blocks(int level) const { return std::clamp(level - deepest_, 0, bits_); }

  /// The rank that has a shard.
  int rank_of(int shard) const {
    const auto before = [](const ShardRange& range, int s) { return range.end <= s; };
    return static_cast<int>(std::lower_bound(shards_.begin(), shards_.end(), shard, before) - shards_.begin());
  }
  const ShardRange& shards_of(int rank) const { return shards_[static_cast<std::size_t>(rank)]; }
  /// Whether a node lies inside of a rank's own nodes, and is none of them.
  bool is_inside(int level, int first) const {
    const ShardRange& range = shards_of(rank_of(first));
    const int parent = first >> (level + 1) << (level + 1);
    return range.begin <= parent && parent + (2 << level) <= range.end;
  }
  /// Who holds a slice of the node whose first shard is this.
  Place holder(int level, int first, std::int64_t slice) const {
    const int rank = rank_of(first);
    const ShardRange& range = shards_of(rank);
    const int last = std::min(first + (1 << level), count_);
    if (last <= range.end) {
      if (range.count() == 1) return {rank, 0};
      const std::vector<TreeNode> own = local_nodes(range);
      const auto is_it = [&](const TreeNode& node) { return (node.number << node.level) == first; };
      return {rank, static_cast<int>(std::ranges::find_if(own, is_it) - own.begin())};
    }
    const int right = first + (1 << (level - 1));
    if (right >= count_) return holder(level - 1, first, slice);
    if (rank_of(right - 1) == rank_of(right)) {  // one rank may hold both
      const Place a = holder(level - 1, first, slice), b = holder(level - 1, right, slice);
      if (a.rank == b.rank) return a;
    }
    return holder(level - 1, right_receives(level - 1, right, slice) ? right : first, slice);
  }
  /// Whether the holder of the right child receives what the holder of the left one has.
  bool right_receives(int level, int right, std::int64_t slice) const {
    if (owner_ != kSlices) {
      const ShardRange& range = shards_of(owner_);
      return range.begin < right + (1 << level) && right < range.end;
    }
    const int turn = level - deepest_;
    return turn >= 0 && turn < bits_ && (slice >> (bits_ - 1 - turn) & 1) != 0;
  }

 private:
  std::span<const ShardRange> shards_;
  int count_, levels_, narrow_levels_ = 0;  // narrow: the highest ones
  int deepest_, bits_ = 0, owner_;          // deepest_: the lowest level with a merge between ranks
};

/// The steps that a rank takes part in; all where some rank has several shards, as it depends on the others then who
/// gets a slice back from whom.
/// @param cuts, owner  as in owner_plans()
TreeSteps tree_steps(int rank, std::span<const ShardRange> shards, std::int64_t elements,
                     std::span<const std::int64_t> cuts = {}, int owner = kSlices) {
  const Tree tree(shards, elements, owner);
  const std::int64_t slices = std::int64_t{1} << tree.bits();
  const auto border = [&](std::int64_t s) {
    const std::int64_t even = elements * s / slices;
    if (cuts.empty() || s == slices) return even;
    const auto next = std::ranges::lower_bound(cuts, even);
    return next == cuts.end() ? elements : std::min(*next, elements);
  };
  const bool all = std::ranges::any_of(shards, [](const ShardRange& range) { return range.count() > 1; });
  const ShardRange mine = all ? ShardRange{0, tree.count()} : tree.shards_of(rank);

  TreeSteps steps;
  steps.levels.resize(static_cast<std::size_t>(tree.levels()));
  std::vector<std::int64_t> blocks = {0}, held;  // that this rank holds, in some node
  for (int l = 0; l < tree.levels() && mine.count() > 0; ++l) {
    TreeSteps::Level& level = steps.levels[static_cast<std::size_t>(l)];
    level.wide = tree.is_wide(l);
    if (tree.blocks(l + 1) > tree.blocks(l)) {
      held.clear();
      for (const std::int64_t block : blocks) held.insert(held.end(), {2 * block, 2 * block + 1});
      blocks.swap(held);
    }
    const int shift = tree.bits() - tree.blocks(l + 1);
    const int begin = mine.begin >> (l + 1) << (l + 1);
    for (int left = begin; left < mine.end && left + (1 << l) < tree.count(); left += 2 << l) {
      const int right = left + (1 << l);
      if (tree.is_inside(l, left)) continue;
      const std::size_t first_merge = level.merges.size();
      for (const std::int64_t block : blocks) {
        const std::int64_t s = block << shift;
        const Slice slice{border(s), border((block + 1) << shift)};
        const Place a = tree.holder(l, left, s), b = tree.holder(l, right, s);
        if (slice.size() == 0 || (!all && a.rank != rank && b.rank != rank)) continue;
        if (a.rank == b.rank) {
          if (a.piece != b.piece) level.additions.push_back({a.rank, a.piece, b.piece, slice});
          continue;
        }
        const bool to_right = tree.right_receives(l, right, s);
        add_merge(level.merges, first_merge, to_right ? a : b, to_right ? b : a, slice);
      }
    }
    if (all) continue;
    std::erase_if(blocks, [&](std::int64_t block) {
      return tree.holder(l + 1, mine.begin >> (l + 1) << (l + 1), block << shift).rank != rank;
    });
  }
  for (const std::int64_t block : blocks) {
    const int shift = tree.bits() - tree.blocks(tree.levels());
    const Place place = tree.holder(tree.levels(), 0, block << shift);
    if (all || place.rank == rank) {
      steps.roots.emplace_back(place, Slice{border(block << shift), border((block + 1) << shift)});
    }
  }
  return steps;
}

/// The parts of a slice that lie in none of the others.
std::vector<Slice> without(const Slice& all, std::span<const Slice> others) {
  std::vector<Slice> parts = {all};
  for (const Slice& other : others) {
    std::vector<Slice> left;
    for (const Slice& part : parts) {
      if (part.begin < std::min(part.end, other.begin)) left.push_back({part.begin, std::min(part.end, other.begin)});
      if (std::max(part.begin, other.end) < part.end) left.push_back({std::max(part.begin, other.end), part.end});
    }
    parts = std::move(left);
  }
  return parts;
}

/// What a tree sums, and which ranks: all, or the one of this number on each of these nodes.
struct TreeGroup {
  Slice all;
  const Nodes* nodes = nullptr;
  std::size_t local = 0;

  int member(int index) const { return nodes == nullptr ? index : nodes->ranks(index)[local]; }
  Slice shifted(const Slice& slice) const { return {all.begin + slice.begin, all.begin + slice.end}; }
};

/// The steps of one rank up the tree, after which piece 0 of the roots holds the sum.
void add_sum(Builder& builder, int rank, const TreeSteps& tree, const TreeGroup& group) {
  for (const TreeSteps::Level& level : tree.levels) {
    for (const Merge& merge : level.merges) {
      const Slice slice = group.shifted(merge.slice);
      const Place &from = merge.from, &to = merge.to;
      if (from.rank == rank) builder.add(Kind::kSend, slice, group.member(to.rank), from.piece, 0, level.wide);
      if (to.rank == rank) builder.add(Kind::kCombine, slice, group.member(from.rank), to.piece, 0, level.wide);
    }
    for (const TreeSteps::Addition& addition : level.additions) {
      if (addition.rank == rank) {
        builder.add(Kind::kAdd, group.shifted(addition.slice), group.member(rank), addition.piece, addition.other);
      }
    }
    builder.next_round();
  }
  for (const auto& [place, slice] : tree.roots) {
    if (place.rank == rank && place.piece != 0) {
      builder.add(Kind::kCopy, group.shifted(slice), group.member(rank), 0, place.piece);
    }
  }
  builder.next_round();
}

/// Back from the roots, from the highest level on.  A rank that gave several nodes of a slice away gets the sum once.
void add_spread(Builder& builder, int rank, const TreeSteps& tree, std::span<const ShardRange> shards,
                const TreeGroup& group) {
  std::vector<std::vector<Slice>> received(shards.size());
  for (std::size_t l = tree.levels.size(); l-- > 0;) {
    for (const Merge& merge : tree.levels[l].merges) {
      std::vector<Slice>& there = received[static_cast<std::size_t>(merge.from.rank)];
      for (const Slice& missing : without(merge.slice, there)) {
        there.push_back(missing);
        const Slice slice = group.shifted(missing);
        if (merge.to.rank == rank) builder.add(Kind::kSend, slice, group.member(merge.from.rank));
        if (merge.from.rank == rank) builder.add(Kind::kReceive, slice, group.member(merge.to.rank));
      }
    }
    builder.next_round();
  }
  // A rank without shards gets the sum from the next one before it that has some.
  int last = 0;
  for (int r = 0; r < static_cast<int>(shards.size()); ++r) {
    if (shards[static_cast<std::size_t>(r)].count() > 0) {
      last = r;
    } else {
      if (rank == last) builder.add(Kind::kSend, group.all, group.member(r));
      if (rank == r) builder.add(Kind::kReceive, group.all, group.member(last));
    }
  }
  builder.next_round();
}

/// All steps of one rank of the tree.
void add_tree(Builder& builder, int rank, std::span<const ShardRange> shards, const TreeGroup& group) {
  const TreeSteps tree = tree_steps(rank, shards, group.all.size());
  add_sum(builder, rank, tree, group);
  add_spread(builder, rank, tree, shards, group);
}

}  // namespace

Slice share_of(const Slice& all, std::int64_t i, std::int64_t n) {
  return {all.begin + all.size() * i / n, all.begin + all.size() * (i + 1) / n};
}

std::vector<ShardRange> one_shard_each(int ranks) {
  std::vector<ShardRange> shards;
  for (int rank = 0; rank < ranks; ++rank) shards.push_back({rank, rank + 1});
  return shards;
}

ShardRange shards_of(int rank, int ranks, int shards) {
  const auto first = [&](std::int64_t r) { return static_cast<int>(r * shards / ranks); };
  return {first(rank), first(rank + 1)};
}

ReductionPlan ring_plan(int rank, int ranks, std::int64_t elements) {
  Builder builder;
  const auto share = [&](int i) { return share_of({0, elements}, ((i % ranks) + ranks) % ranks, ranks); };
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (int round = 0; round < ranks - 1; ++round) {  // at the end share rank + 1 is summed here
    builder.add(Kind::kSend, share(rank - round), next);
    builder.add(Kind::kCombine, share(rank - round - 1), before);
    builder.next_round();
  }
  for (int round = 0; round < ranks - 1; ++round) {
    builder.add(Kind::kSend, share(rank + 1 - round), next);
    builder.add(Kind::kReceive, share(rank - round), before);
    builder.next_round();
  }
  return builder.take();
}

ReductionPlan doubling_plan(int rank, int ranks, std::int64_t elements) {
  Builder builder;
  const Slice all{0, elements};
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))), rest = ranks - power;
  // Of the first 2 rest ranks each odd one gives its vector to the one before it and gets the sum from it.
  const bool folded = rank < 2 * rest;
  if (folded && rank % 2 == 1) {
    builder.add(Kind::kSend, all, rank - 1, 0, 0, true);
    builder.next_round();
    builder.add(Kind::kReceive, all, rank - 1);
    return builder.take();
  }
  if (folded) {
    builder.add(Kind::kCombine, all, rank + 1, 0, 0, true);
    builder.next_round();
  }
  const int number = folded ? rank / 2 : rank - rest;
  for (int distance = 1; distance < power; distance *= 2) {
    const int other = number ^ distance, peer = other < rest ? 2 * other : other + rest;
    builder.add(Kind::kSend, all, peer);
    builder.add(Kind::kCombine, all, peer);
    builder.next_round();
  }
  if (rest > 0) builder.add(folded ? Kind::kSend : Kind::kRound, all, rank + 1);
  return builder.take();
}

std::vector<TreeNode> local_nodes(const ShardRange& mine) {
  std::vector<TreeNode> nodes;
  for (int s = mine.begin; s < mine.end; ++s) {
    nodes.push_back({0, s});
    while (nodes.size() > 1) {
      const TreeNode &right = nodes.back(), &left = nodes[nodes.size() - 2];
      if (right.number % 2 == 0 || left.level != right.level || left.number != right.number - 1) break;
      nodes.pop_back();
      nodes.back() = {left.level + 1, left.number / 2};
    }
  }
  return nodes;
}

ReductionPlan tree_plan(int rank, std::span<const ShardRange> shards, std::int64_t elements) {
  Builder builder;
  add_tree(builder, rank, shards, {{0, elements}});
  return builder.take();
}

ReductionPlan halving_plan(int rank, int ranks, std::int64_t elements) {
  return tree_plan(rank, one_shard_each(ranks), elements);
}

OwnerPlans owner_plans(int rank, std::span<const ShardRange> shards, std::int64_t elements,
                       std::span<const std::int64_t> cuts, int owner) {
  PETAFLOW_REQUIRE(owner == kSlices || shards[static_cast<std::size_t>(owner)].count() > 0, "owner {} has no shard",
                   owner);
  const TreeGroup group{{0, elements}};
  const TreeSteps tree = tree_steps(rank, shards, elements, cuts, owner);
  Builder sum, spread;
  add_sum(sum, rank, tree, group);
  add_spread(spread, rank, tree, shards, group);
  OwnerPlans plans{sum.take(), spread.take(), {}};
  for (const auto& [place, slice] : tree.roots) {
    if (place.rank == rank && slice.size() > 0) plans.own.push_back(slice);
  }
  return plans;
}

ReductionPlan two_level_plan(int rank, const Nodes& nodes, std::int64_t elements) {
  const int mine = nodes.of(rank);
  const std::span<const int> here = nodes.ranks(mine);
  const std::size_t local = static_cast<std::size_t>(std::ranges::lower_bound(here, rank) - here.begin());
  const auto share = [&](std::size_t i) { return share_of({0, elements}, std::int64_t(i), std::ssize(here)); };
  // Calls step(to, from) for the other ranks of this node, by their numbers on it, so that no two send to the same.
  const auto with_others = [&](const auto& step) {
    for (std::size_t distance = 1; distance < here.size(); ++distance) {
      step((local + distance) % here.size(), (local + here.size() - distance) % here.size());
    }
  };

  Builder builder;
  with_others([&](std::size_t to, std::size_t from) {
    builder.add(Kind::kSend, share(to), here[to]);
    builder.add(Kind::kCombine, share(local), here[from]);
  });
  builder.next_round();
  for (int node = 0; node < nodes.count(); ++node) {
    PETAFLOW_REQUIRE(nodes.ranks(node).size() == here.size(), "node {} has {} ranks, not {}", node,
                     nodes.ranks(node).size(), here.size());
  }
  add_tree(builder, mine, one_shard_each(nodes.count()), {share(local), &nodes, local});
  with_others([&](std::size_t to, std::size_t from) {
    builder.add(Kind::kSend, share(local), here[to]);
    builder.add(Kind::kReceive, share(from), here[from]);
  });
  return builder.take();
}

}  // namespace petaflow
