// Orders of epochs: each place once, and as good as uniform over epochs.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "data/permutation.hpp"

namespace petaflow {
namespace {

TEST(Permutation, IsOneForEverySize) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 16, 17, 64, 65, 1000, 4097}) {
    const Permutation order(n, random_stream(1, RandomPurpose::kShuffle, 2));
    std::vector<bool> hit(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_TRUE(order(i) >= 0 && order(i) < n);
      hit[static_cast<std::size_t>(order(i))] = true;
    }
    EXPECT_EQ(std::ranges::count(hit, true), n);
  }
}

// Chi-square over many epochs: where sample 0 goes, and which of two neighbours comes first, is as good as uniform.
TEST(Permutation, IsUniformOverEpochs) {
  for (const std::int64_t n : {2, 3, 5, 12, 50}) {
    constexpr int kEpochs = 20000;
    std::vector<int> place(static_cast<std::size_t>(n));
    int ordered = 0;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const Permutation order(n, random_stream(9, RandomPurpose::kShuffle, static_cast<std::uint64_t>(epoch)));
      ++place[static_cast<std::size_t>(order(0))];
      ordered += order(0) < order(1) ? 1 : 0;
    }
    double chi2 = 0;
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(n);
    for (const int count : place) chi2 += (count - expected) * (count - expected) / expected;
    const auto freedom = static_cast<double>(n - 1);
    EXPECT_LT(chi2, freedom + 4 * std::sqrt(2 * freedom) + 5) << n;
    EXPECT_NEAR(ordered, kEpochs / 2, 4 * std::sqrt(kEpochs) / 2) << n;
  }
}

}  // namespace
}  // namespace petaflow
