#include "nn/memory_plan.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace petaflow {

std::size_t planned_bytes(std::size_t size_bytes) {
  constexpr std::size_t kAlignment = 4096;
  if (size_bytes == 0) return 0;
  return (size_bytes + kArenaGap + kAlignment - 1) / kAlignment * kAlignment;
}

namespace {

bool meet(const MemoryBlock& a, const MemoryBlock& b) { return a.first <= b.last && b.first <= a.last; }

std::size_t end_of(const MemoryBlock& block) { return block.offset + planned_bytes(block.size_bytes); }

/// The most that is alive at once: no plan is smaller.  Blocks that share a moment with another begin in one.
std::size_t lower_bound(const std::vector<MemoryBlock>& blocks) {
  std::size_t most = 0;
  for (const MemoryBlock& begins : blocks) {
    std::size_t sum = 0;
    for (const MemoryBlock& block : blocks) {
      if (block.first <= begins.first && begins.first <= block.last) sum += planned_bytes(block.size_bytes);
    }
    most = std::max(most, sum);
  }
  return most;
}

/// Places one block after the other at the lowest offset that is free during its whole life.  Returns the plan's size.
std::size_t place(std::vector<MemoryBlock>& blocks, const std::vector<std::size_t>& order) {
  std::size_t size = 0;
  std::vector<std::size_t> placed;  // sorted by offset
  for (const std::size_t index : order) {
    MemoryBlock& block = blocks[index];
    block.offset = 0;
    for (const std::size_t other_index : placed) {
      const MemoryBlock& other = blocks[other_index];
      if (!meet(block, other)) continue;
      if (end_of(block) <= other.offset) break;
      block.offset = std::max(block.offset, end_of(other));
    }
    size = std::max(size, end_of(block));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](std::size_t a, std::size_t b) { return blocks[a].offset < blocks[b].offset; }),
                  index);
  }
  return size;
}

}  // namespace

std::size_t plan_memory(std::vector<MemoryBlock>& blocks) {
  if (blocks.empty()) return 0;
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].size_bytes > blocks[b].size_bytes; });
  std::size_t size = place(blocks, order);

  const std::size_t bound = lower_bound(blocks), enough = bound + bound / 100;
  // Blocks that are always alive may lie at the bottom in any plan; the others are exchanged in the order.
  const auto always = [&](std::size_t i) { return blocks[i].first == kForever; };
  std::ranges::stable_partition(order, always);
  const auto others = std::ranges::find_if_not(order, always);
  const auto count = static_cast<std::size_t>(order.end() - others);
  std::vector<MemoryBlock> tried = blocks;
  std::minstd_rand random;  // always of the same seed: the same blocks have one plan
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries && count > 1 && size > enough; ++i) {
    const std::vector<std::size_t> before = order;
    const auto from = others + random() % count, to = others + random() % count;
    from < to ? std::rotate(from, from + 1, to + 1) : std::rotate(to, from, from + 1);
    const std::size_t now = place(tried, order);
    if (now > size) std::ranges::copy(before, order.begin());
    if (now < size) blocks = tried;
    size = std::min(size, now);
  }
  return size;
}

}  // namespace petaflow
