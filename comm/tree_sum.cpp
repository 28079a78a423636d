#include "comm/tree_sum.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace petaflow {

ShardRange shards_of(int rank, int ranks, int shards) {
  const auto first = [&](std::int64_t r) { return static_cast<int>(r * shards / ranks); };
  return {first(rank), first(rank + 1)};
}

TreeSum::TreeSum(Communicator& comm, std::vector<ShardRange> ranges, std::int64_t elements)
    : comm_(comm), ranges_(std::move(ranges)), elements_(elements) {
  PETAFLOW_REQUIRE(static_cast<int>(ranges_.size()) == comm_.size(), "{} ranges for {} ranks", ranges_.size(),
                   comm_.size());
  for (const ShardRange& range : ranges_) {
    PETAFLOW_REQUIRE(range.begin == shards_ && range.end >= range.begin, "shards {}..{} after {}", range.begin,
                     range.end, shards_);
    shards_ = range.end;
  }
  PETAFLOW_REQUIRE(ranges_[0].count() > 0, "rank 0 has no shard");
  next_ = ranges_[static_cast<std::size_t>(comm_.rank())].begin;
}

TreeSum::Buffer TreeSum::take_buffer() {
  if (free_.empty()) return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(elements_));
  Buffer buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

int TreeSum::owner(int level, int number) const {
  const int first = number << level;
  for (std::size_t rank = 0; rank < ranges_.size(); ++rank) {
    if (first >= ranges_[rank].begin && first < ranges_[rank].end) return static_cast<int>(rank);
  }
  failure("shard {} of {} belongs to no rank", first, shards_);
}

// The last two nodes are siblings: left += right, one level up.
void TreeSum::merge_right_into_left() {
  Node right = std::move(nodes_.back());
  nodes_.pop_back();
  Node& left = nodes_.back();
  for (std::int64_t i = 0; i < elements_; ++i) left.values[i] += right.values[i];
  left.level += 1;
  left.number /= 2;
  free_.push_back(std::move(right.values));
}

void TreeSum::add(std::span<const float> shard) {
  PETAFLOW_REQUIRE(static_cast<std::int64_t>(shard.size()) == elements_, "a shard of {} instead of {}", shard.size(),
                   elements_);
  PETAFLOW_REQUIRE(next_ < ranges_[static_cast<std::size_t>(comm_.rank())].end, "one shard too many");
  nodes_.push_back({0, next_++, take_buffer()});
  std::copy(shard.begin(), shard.end(), nodes_.back().values.get());
  while (nodes_.size() > 1 && nodes_.back().number % 2 == 1 && nodes_[nodes_.size() - 2].level == nodes_.back().level &&
         nodes_[nodes_.size() - 2].number == nodes_.back().number - 1) {
    merge_right_into_left();
  }
}

void TreeSum::finish(std::span<float> sum) {
  PETAFLOW_REQUIRE(static_cast<std::int64_t>(sum.size()) == elements_, "a sum of {}, expected {}", sum.size(),
                   elements_);
  const ShardRange mine = ranges_[static_cast<std::size_t>(comm_.rank())];
  PETAFLOW_REQUIRE(next_ == mine.end, "{} of {} shards were added", next_ - mine.begin, mine.count());

  // Level by level: this rank's nodes of the level are sent to the left, added, or renamed where they have no sibling.
  for (int level = 0; (1 << level) < shards_; ++level) {
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      if (nodes_[i].level != level) continue;
      const int number = nodes_[i].number;
      if (number % 2 == 1) {  // a right child: its sibling to the left has this level too, here or elsewhere
        const int to = owner(level, number - 1);
        if (to == comm_.rank()) continue;  // added below, when its sibling is met
        comm_.send({nodes_[i].values.get(), static_cast<std::size_t>(elements_)}, to);
        free_.push_back(std::move(nodes_[i].values));
        nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      Node& left = nodes_[i];
      if (((number + 1) << level) < shards_) {
        const int from = owner(level, number + 1);
        Buffer right;
        if (from == comm_.rank()) {
          PETAFLOW_REQUIRE(i + 1 < nodes_.size() && nodes_[i + 1].level == level, "node {}.{} is missing", level,
                           number + 1);
          right = std::move(nodes_[i + 1].values);
          nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        } else {
          right = take_buffer();
          comm_.receive({right.get(), static_cast<std::size_t>(elements_)}, from);
        }
        for (std::int64_t e = 0; e < elements_; ++e) left.values[e] += right[e];
        free_.push_back(std::move(right));
      }
      left.level += 1;
      left.number /= 2;
    }
  }
  if (comm_.rank() == 0) {
    std::copy_n(nodes_[0].values.get(), elements_, sum.begin());
    free_.push_back(std::move(nodes_[0].values));
  }
  nodes_.clear();
  next_ = mine.begin;
  comm_.broadcast(std::as_writable_bytes(sum), 0);
}

}  // namespace petaflow
