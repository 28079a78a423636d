#include "nn/arena.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include <sys/mman.h>

#include "base/context.hpp"
#include "base/error.hpp"
#include "base/unwritten.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

namespace petaflow {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kPoisons = kOnHost;
#else
constexpr bool kPoisons = false;
#endif

}  // namespace

Arena::Arena(std::vector<MemoryBlock> blocks, bool touch, bool fill) : blocks_(std::move(blocks)), fill_(fill) {
  const std::size_t planned = kFront + plan_memory(blocks_);
  size_bytes_ = (planned + kHugePage - 1) / kHugePage * kHugePage;
  try {
    memory_ = static_cast<std::byte*>(Kokkos::kokkos_malloc<MemorySpace>("petaflow::arena", size_bytes_ + kHugePage));
  } catch (const std::exception&) {
    memory_ = nullptr;
  }
  if (memory_ == nullptr) {
    std::sort(blocks_.begin(), blocks_.end(), [](const auto& a, const auto& b) { return a.size_bytes > b.size_bytes; });
    const bool by_weights = !blocks_.empty() && blocks_.front().label == "weights";
    std::string largest;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, blocks_.size()); ++i) {
      largest += fmt::format("{}{} ({:.1f} MiB)", i == 0 ? "" : ", ", blocks_[i].label,
                             static_cast<double>(blocks_[i].size_bytes) / 1048576.0);
    }
    user_error("out of memory: the network needs {:.1f} MiB in one piece; its largest tensors are {}; {}",
               static_cast<double>(size_bytes_) / 1048576.0, largest,
               by_weights ? "make the layers with the most weights smaller: train.batch changes little"
                          : "use a smaller train.batch");
  }
  first_ = memory_;
  if constexpr (kOnHost) {
    // Huge pages matter: first touch of a fresh 206 MiB tensor takes 39 ms with small pages and 6 ms with huge ones.
    first_ += (kHugePage - reinterpret_cast<std::uintptr_t>(memory_) % kHugePage) % kHugePage;
    // Memory that was in use before, as after tuning, has small pages already: they are given back first.
    madvise(first_, size_bytes_, MADV_DONTNEED);
    madvise(first_, size_bytes_, MADV_HUGEPAGE);  // advice only: refusal changes nothing but speed
    if (touch) {
      std::byte* first = first_;
      Kokkos::parallel_for(
          "petaflow::arena::touch",
          Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, static_cast<std::int64_t>(size_bytes_ / 4096)),
          [=](std::int64_t page) { first[page * 4096] = std::byte{0}; });
      Kokkos::DefaultHostExecutionSpace().fence();
    }
    ASAN_POISON_MEMORY_REGION(memory_, size_bytes_ + kHugePage);
  }
  enter(kForever);
}

Arena::~Arena() {
  if (memory_ == nullptr) return;
  if constexpr (kOnHost) ASAN_UNPOISON_MEMORY_REGION(memory_, size_bytes_ + kHugePage);
  Kokkos::kokkos_free<MemorySpace>(memory_);
}

void Arena::swap(Arena& other) noexcept {
  std::swap(blocks_, other.blocks_);
  std::swap(memory_, other.memory_);
  std::swap(first_, other.first_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(fill_, other.fill_);
  std::swap(moment_, other.moment_);
}

std::size_t Arena::huge_page_bytes() const {
  if (!kOnHost) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(first_), end = begin + size_bytes_;
  std::ifstream file("/proc/self/smaps");
  std::size_t kib = 0;
  bool inside = false;  // of the mapping that the lines are about; advice gives the arena mappings of its own
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t from = 0, to = 0;
    std::size_t huge_kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      inside = from < end && begin < to;
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %zu kB", &huge_kib) == 1) {
      kib += huge_kib;
    }
  }
  return std::min(kib * 1024, size_bytes_);
}

void Arena::fill(const MemoryBlock& block) const {
  using Words = Kokkos::View<std::uint16_t*, MemorySpace, Kokkos::MemoryUnmanaged>;
  const Words words(reinterpret_cast<std::uint16_t*>(first_ + kFront + block.offset), block.size_bytes / 2);
  Kokkos::deep_copy(words, kUnwritten);
}

void Arena::enter(int moment) {
  if (!kPoisons && !fill_) return;
  const auto alive_at = [](const MemoryBlock& block, int when) { return block.first <= when && when <= block.last; };
  for (const MemoryBlock& block : blocks_) {
    if (fill_ && alive_at(block, moment_) && !alive_at(block, moment)) fill(block);
  }
  for (const MemoryBlock& block : blocks_) {
    if (kPoisons && !alive_at(block, moment))
      ASAN_POISON_MEMORY_REGION(first_ + kFront + block.offset, block.size_bytes);
  }
  for (const MemoryBlock& block : blocks_) {
    if (!alive_at(block, moment)) continue;
    if (kPoisons) ASAN_UNPOISON_MEMORY_REGION(first_ + kFront + block.offset, block.size_bytes);
    if (fill_ && block.first == moment && moment_ != moment) fill(block);
  }
  moment_ = moment;
}

}  // namespace petaflow
