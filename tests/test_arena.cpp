// The memory of a network: blocks alive together lie apart, and what belongs to none of them must not be touched.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/context.hpp"
#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "device_memory.hpp"
#include "nn/arena.hpp"
#include "nn/graph.hpp"
#include "nn/layers/conv.hpp"
#include "nn/network.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace petaflow {
namespace {

/// Blocks of odd sizes, so that one ends inside the eight bytes that AddressSanitizer marks together.
std::vector<MemoryBlock> blocks() {
  return {{"weights", 4096, kForever, kToTheEnd},
          {"a", 40004, 0, 1},
          {"b", 40004, 1, 2},
          {"c", 13, 0, 3},
          {"none", 0, 0, 3}};
}

TEST(MemoryPlan, BlocksThatLiveTogetherLieApart) {
  std::vector<MemoryBlock> planned = blocks();
  const std::size_t total = plan_memory(planned);
  for (const MemoryBlock& a : planned) {
    EXPECT_LE(a.size_bytes == 0 ? 0 : a.offset + a.size_bytes + kArenaGap, total);
    for (const MemoryBlock& b : planned) {
      if (&a == &b || a.size_bytes == 0 || b.size_bytes == 0 || a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.size_bytes + kArenaGap <= b.offset || b.offset + b.size_bytes + kArenaGap <= a.offset)
          << a.label << " and " << b.label;
    }
  }
}

// Those whose place is given lie there, as close as they were asked to, others around them.
TEST(MemoryPlan, APlaceThatIsGivenIsKept) {
  std::vector<MemoryBlock> planned = {{"weights", 4096, kForever, kToTheEnd}, {"tail", 9004, 1, kToTheEnd, 10240},
                                      {"head", 1000, 3, kToTheEnd, 11240},    {"before both", 40004, 0, 0},
                                      {"beside the tail", 40004, 1, 2},       {"beside both", 4000, 2, 3}};
  const std::size_t total = plan_memory(planned);
  EXPECT_EQ(planned[1].offset, total - 10240);
  EXPECT_EQ(planned[2].offset, total - 11240);
  EXPECT_GT(planned[3].offset + planned[3].size_bytes, planned[1].offset) << "the place of what is not alive yet";
  EXPECT_LE(planned[4].offset + planned[4].size_bytes + kArenaGap, planned[1].offset);
  EXPECT_LE(planned[5].offset + planned[5].size_bytes + kArenaGap, planned[2].offset);
  EXPECT_EQ(total, planned_bytes(4096) + planned_bytes(40004) + planned_bytes(4000) + 12288);
}

TEST(Arena, WhatDoesNotFitIsAUsersError) {
#if defined(__SANITIZE_ADDRESS__) || defined(PETAFLOW_GUARDED)
  GTEST_SKIP() << "SKIPPED: AddressSanitizer and guarded memory end a program that asks for so much";
#endif
  try {
    const Arena arena({{"conv1 output", std::size_t{1} << 50, 0, 1}, {"conv2 output", 1 << 20, 1, 2}}, false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_NE(std::string(error.what()).find("its largest tensors are conv1 output (1073741824.0 MiB), conv2 output"),
              std::string::npos)
        << error.what();
  }
}

/// All numbers of a block are NaN, as f32 and, two at a time, as bf16.
bool holds_nothing(const Arena& arena, std::size_t block) {
  const auto count = static_cast<std::int64_t>(arena.blocks()[block].size_bytes / sizeof(float));
  const auto values = testing_support::to_host(reinterpret_cast<const float*>(arena.block(block)), count);
  return std::ranges::all_of(values, [](float value) {
    return std::isnan(value) && std::isnan(std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) << 16));
  });
}

/// What an exception says, or an empty text.
std::string text_of(const std::function<void()>& allocate) {
  try {
    allocate();
  } catch (const std::exception& error) {
    return out_of_memory_text(error);
  }
  return "nothing thrown";
}

TEST(Arena, WeightsThatDoNotFitAreNotOfTheBatch) {
#if defined(__SANITIZE_ADDRESS__) || defined(PETAFLOW_GUARDED)
  GTEST_SKIP() << "SKIPPED: AddressSanitizer and guarded memory end a program that asks for so much";
#endif
  try {
    const Arena arena({{"weights", std::size_t{1} << 50, 0, 1}, {"conv2 output", 1 << 20, 1, 2}}, false);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("make the layers with the most weights smaller"), text.npos) << text;
    EXPECT_EQ(text.find("use a smaller train.batch"), text.npos) << text;
  }
}

TEST(Arena, KokkosSaysWhatItCannotAllocate) {
#if defined(__SANITIZE_ADDRESS__) || defined(PETAFLOW_GUARDED)
  GTEST_SKIP() << "SKIPPED: AddressSanitizer and guarded memory end a program that asks for so much";
#endif
  EXPECT_EQ(
      text_of([] { const Kokkos::View<std::byte*, Kokkos::HostSpace> v("petaflow::packed", std::size_t{1} << 50); }),
      "out of memory: petaflow::packed takes 1.049e+06 GiB");
  EXPECT_EQ(text_of([] { throw std::bad_alloc(); }), "out of memory");
  EXPECT_EQ(text_of([] { failure("a label \"x\" of another size"); }), "");
}

TEST(Arena, ABlockHoldsNothingUsableBeforeItsLifeAndBehindIt) {
#if defined(PETAFLOW_GUARDED)
  GTEST_SKIP() << "SKIPPED: guarded memory ends a process that looks at what nothing has written";
#endif
  Arena arena(blocks(), true, true);
  const std::vector<float> ones(10001, 1.0F);
  const auto write = [&](std::size_t block) {
    testing_support::to_device(ones, reinterpret_cast<float*>(arena.block(block)));
  };
  arena.enter(0);
  EXPECT_TRUE(holds_nothing(arena, 1));
  write(1);
  arena.enter(1);
  EXPECT_FALSE(holds_nothing(arena, 1));
  EXPECT_TRUE(holds_nothing(arena, 2));
  write(2);
  arena.enter(2);
#if !defined(__SANITIZE_ADDRESS__)  // which lets nobody look
  EXPECT_TRUE(holds_nothing(arena, 1));
#endif
  EXPECT_FALSE(holds_nothing(arena, 2));
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
      if (moment < all[i].first || all[i].last < moment || all[i].size_bytes == 0) continue;
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
