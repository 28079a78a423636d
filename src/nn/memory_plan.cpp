#include "nn/memory_plan.hpp"

#include <algorithm>
#include <numeric>

namespace petaflow {

std::size_t planned_bytes(std::size_t size_bytes) {
  constexpr std::size_t kAlignment = 4096;
  return (size_bytes + kArenaGap + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t plan_memory(std::vector<MemoryBlock>& blocks) {
  const auto extent = [](const MemoryBlock& block) { return planned_bytes(block.size_bytes); };
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].size_bytes > blocks[b].size_bytes; });

  std::size_t total = 0;
  std::vector<std::size_t> placed;  // sorted by offset
  for (const std::size_t index : order) {
    MemoryBlock& block = blocks[index];
    std::size_t offset = 0;
    for (const std::size_t other_index : placed) {
      const MemoryBlock& other = blocks[other_index];
      if (other.last < block.first || block.last < other.first) continue;
      if (offset + extent(block) <= other.offset) break;
      offset = std::max(offset, other.offset + extent(other));
    }
    block.offset = offset;
    total = std::max(total, offset + extent(block));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](std::size_t a, std::size_t b) { return blocks[a].offset < blocks[b].offset; }),
                  index);
  }
  return total;
}

}  // namespace petaflow
