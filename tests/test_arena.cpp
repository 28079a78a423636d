// The memory of a network: blocks alive together lie apart, and what belongs to none of them must not be touched.
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/context.hpp"
#include "nn/arena.hpp"
#include "nn/graph.hpp"
#include "nn/layers/conv.hpp"
#include "nn/network.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace petaflow {
namespace {

/// Of odd sizes, so that a block ends inside the eight bytes that AddressSanitizer marks as one.
std::vector<MemoryBlock> blocks() {
  constexpr int kEnd = std::numeric_limits<int>::max();
  return {
      {"weights", 4096, kForever, kEnd}, {"a", 40004, 0, 1}, {"b", 40004, 1, 2}, {"c", 13, 0, 3}, {"none", 0, 0, 3}};
}

TEST(MemoryPlan, BlocksThatLiveTogetherLieApart) {
  std::vector<MemoryBlock> planned = blocks();
  const std::size_t total = plan_memory(planned);
  for (const MemoryBlock& a : planned) {
    EXPECT_LE(a.offset + a.size_bytes + kArenaGap, total);
    for (const MemoryBlock& b : planned) {
      if (&a == &b || a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.size_bytes + kArenaGap <= b.offset || b.offset + b.size_bytes + kArenaGap <= a.offset)
          << a.label << " and " << b.label;
    }
  }
}

TEST(Arena, ABlockThatComesToLifeHoldsNothingUsable) {
#if defined(NDEBUG)
  GTEST_SKIP() << "SKIPPED: only builds with assertions fill the arena";
#endif
  if (!kOnHost) GTEST_SKIP() << "SKIPPED: only memory of the host is filled";
  Arena arena(blocks());
  auto* const a = reinterpret_cast<float*>(arena.block(1));
  arena.enter(0);
  EXPECT_TRUE(std::isnan(a[0]) && std::isnan(a[10000]));
  a[0] = 1;
  arena.enter(1);
  EXPECT_EQ(a[0], 1);
  EXPECT_TRUE(std::isnan(*reinterpret_cast<float*>(arena.block(2))));
}

TEST(Arena, LiesOnHugePagesWhereTheKernelGivesThem) {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  std::getline(file, modes);
  if (!kOnHost || modes.empty() || modes.find("[never]") != std::string::npos) {
    GTEST_SKIP() << "SKIPPED: this machine has none (" << modes << ")";
  }
  constexpr std::size_t kSize = std::size_t{64} << 20;
  const std::vector<MemoryBlock> large = {{"large", kSize, kForever, std::numeric_limits<int>::max()}};
  const Arena arena(large);
  EXPECT_GE(arena.huge_page_bytes(), kSize / 2);
  EXPECT_LE(arena.huge_page_bytes(), arena.size_bytes());
  EXPECT_EQ(Arena(large, false).huge_page_bytes(), 0U) << "it was not to be touched";

  // glibc keeps memory that was freed before, with its small pages, for blocks of less than 32 MiB.
  constexpr std::size_t kSmaller = std::size_t{12} << 20;
  for (int i = 0; i < 3; ++i) {
    const std::vector<char> used(2 * kSmaller, 1);
    EXPECT_EQ(used.back(), 1);
  }
  const Arena again(std::vector<MemoryBlock>{{"smaller", kSmaller, kForever, std::numeric_limits<int>::max()}});
  EXPECT_GE(again.huge_page_bytes(), kSmaller / 2);
}

#if defined(__SANITIZE_ADDRESS__)

TEST(Arena, OnlyLivingBlocksMayBeTouched) {
  Arena arena(blocks());
  const std::vector<MemoryBlock> all = blocks();
  for (const int moment : {0, 1, 2, 3, 0}) {
    arena.enter(moment);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::byte* const block = arena.block(i);
      if (moment < all[i].first || all[i].last < moment) continue;
      EXPECT_EQ(__asan_region_is_poisoned(const_cast<std::byte*>(block), all[i].size_bytes), nullptr) << all[i].label;
      for (std::ptrdiff_t outside = 1; outside <= std::ptrdiff_t{kArenaGap}; ++outside) {
        EXPECT_TRUE(__asan_address_is_poisoned(block - outside)) << all[i].label << ", " << outside << " before";
        EXPECT_TRUE(__asan_address_is_poisoned(block + all[i].size_bytes + outside - 1))
            << all[i].label << ", " << outside << " behind";
      }
    }
  }
  arena.enter(3);  // a and b are dead
  EXPECT_TRUE(__asan_address_is_poisoned(arena.block(1)));
}

/// A kernel that goes one element too far, in the first and the last tensor of a network.
TEST(Arena, AKernelThatGoesOneElementTooFarIsCaught) {
  Graph graph(Shape{1, 3, 1, 9, 9});
  graph.add<Conv>("conv1", ConvOptions::same_2d(5, 3));
  const Context context;
  NetworkOptions options;
  options.batch = 2;
  Network network(graph, options, context);
  network.forward(context);
  const auto read = [](const float* at) {
    volatile float value = *at;
    static_cast<void>(value);
  };
  for (const Tensor& tensor : {network.input(), network.output(), network.output_gradient()}) {
    const auto* const first = tensor.as<float>();
    const std::int64_t count = tensor.shape.elements();
    read(first + count - 1);
    EXPECT_DEATH(read(first + count), "use-after-poison");
    EXPECT_DEATH(read(first - 1), "use-after-poison");
  }
}

#else

TEST(Arena, OnlyLivingBlocksMayBeTouched) { GTEST_SKIP() << "SKIPPED: only AddressSanitizer sees it (preset asan)"; }

#endif

}  // namespace
}  // namespace petaflow
