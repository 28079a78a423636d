// The one allocation of a network: every tensor of a step lies in it at an address fixed before the first step.
#pragma once

#include <cstddef>
#include <vector>

#include "nn/memory_plan.hpp"

namespace petaflow {

/// Memory in the execution space's memory, on huge pages where the host has them, touched once.
/// Under AddressSanitizer the bytes that belong to no living block are poisoned.
class Arena {
 public:
  Arena() = default;
  /// Plans the blocks and allocates.  Throws a user error naming the bytes asked for and the largest blocks.
  /// @param touch  false: on the host, pages that nobody writes to take no memory
  /// @param fill   a block is filled with NaN where its life begins, and where it ends
  explicit Arena(std::vector<MemoryBlock> blocks, bool touch = true, bool fill = false);
  ~Arena();
  Arena(Arena&& other) noexcept { swap(other); }
  Arena& operator=(Arena&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* block(std::size_t index) const { return first_ + kFront + blocks_[index].offset; }
  const std::vector<MemoryBlock>& blocks() const { return blocks_; }  // as planned
  std::size_t size_bytes() const { return size_bytes_; }
  /// Bytes of it that lie on huge pages, as the kernel says (0 where it does not, and on devices).  Slow: reads
  /// /proc/self/smaps.
  std::size_t huge_page_bytes() const;
  /// The step reaches a moment: blocks that are not alive in it must not be touched.
  void enter(int moment);

 private:
  /// Bytes left free before the first block, poisoned as the gaps behind blocks are; a page, so that blocks keep their
  /// place in pages.
  static constexpr std::size_t kFront = 4096;

  void swap(Arena& other) noexcept;
  void fill(const MemoryBlock& block) const;

  std::vector<MemoryBlock> blocks_;
  std::byte* memory_ = nullptr;  // as allocated
  std::byte* first_ = nullptr;   // the first huge page of it
  std::size_t size_bytes_ = 0;
  bool fill_ = false;
  int moment_ = kForever - 1;
};

}  // namespace petaflow
