#include "nn/memory_plan.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

namespace petaflow {

namespace {

constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

std::size_t planned_bytes(std::size_t size_bytes) { return size_bytes == 0 ? 0 : whole_pages(size_bytes + kArenaGap); }

namespace {

/// The pages of a block, in bytes before the end of the arena: from the end of its gap to its first byte.
struct Place {
  std::size_t begin = 0, end = 0;
};

Place given_place(const MemoryBlock& block) {
  const std::size_t end = *block.from_end, behind = end - block.size_bytes;
  return {behind < kArenaGap ? 0 : (behind - kArenaGap) / kPage * kPage, whole_pages(end)};
}

bool meet(const MemoryBlock& a, const MemoryBlock& b) { return a.first <= b.last && b.first <= a.last; }

/// The most that is alive at once of those in `order`: no plan is smaller.  Blocks that share a moment with another
/// begin in one.
std::size_t lower_bound(const std::vector<MemoryBlock>& blocks, const std::vector<std::size_t>& order) {
  std::size_t most = 0;
  for (const std::size_t begins : order) {
    const int moment = blocks[begins].first;
    std::size_t sum = 0;
    for (const std::size_t i : order) {
      if (blocks[i].first <= moment && moment <= blocks[i].last) sum += planned_bytes(blocks[i].size_bytes);
    }
    most = std::max(most, sum);
  }
  return most;
}

/// Places one block after the other where it is free during its whole life.  Returns the bytes from the farthest to the
/// end.
std::size_t place(const std::vector<MemoryBlock>& blocks, const std::vector<std::size_t>& order,
                  std::vector<Place>& places) {
  std::size_t size = 0;
  std::vector<std::size_t> placed;  // sorted by begin
  for (const std::size_t index : order) {
    const MemoryBlock& block = blocks[index];
    Place at{0, planned_bytes(block.size_bytes)};
    if (block.from_end) {
      at = given_place(block);
    } else {
      for (const std::size_t other : placed) {
        if (!meet(block, blocks[other])) continue;
        if (at.end <= places[other].begin) break;
        if (at.begin < places[other].end) at = {places[other].end, places[other].end + at.end - at.begin};
      }
    }
    places[index] = at;
    size = std::max(size, at.end);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](std::size_t a, std::size_t b) { return places[a].begin < places[b].begin; }),
                  index);
  }
  return size;
}

}  // namespace

std::size_t plan_memory(std::vector<MemoryBlock>& blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return blocks[i].size_bytes; });
  // At the beginning, where no plan of the others gets smaller or larger by them.
  const auto behind_them =
      std::ranges::stable_partition(order, [&](std::size_t i) { return blocks[i].first == kForever; });
  std::size_t always = 0;
  for (const std::size_t i : std::ranges::subrange(order.begin(), behind_them.begin())) {
    blocks[i].offset = always;
    always += planned_bytes(blocks[i].size_bytes);
  }
  order.erase(order.begin(), behind_them.begin());

  const auto movable =
      std::ranges::stable_partition(order, [&](std::size_t i) { return blocks[i].from_end.has_value(); });
  const auto count = std::ranges::size(movable);
  std::vector<Place> places(blocks.size()), tried(blocks.size());
  std::size_t size = place(blocks, order, places);
  const std::size_t bound = lower_bound(blocks, order), enough = bound + bound / 100;
  std::minstd_rand random;  // always of the same seed: the same blocks have one plan
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries && count > 1 && size > enough; ++i) {
    const std::vector<std::size_t> before = order;
    const auto from = movable.begin() + random() % count, to = movable.begin() + random() % count;
    from < to ? std::rotate(from, from + 1, to + 1) : std::rotate(to, from, from + 1);
    const std::size_t now = place(blocks, order, tried);
    if (now > size) std::ranges::copy(before, order.begin());
    if (now < size) places = tried;
    size = std::min(size, now);
  }
  for (const std::size_t i : order) blocks[i].offset = always + size - blocks[i].from_end.value_or(places[i].end);
  return always + size;
}

}  // namespace petaflow
