// Connected components of masks against components found by spreading the smallest label.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/random.hpp"
#include "climate/components.hpp"

namespace petaflow::climate {
namespace {

using Mask = std::vector<std::uint8_t>;

Mask drawn(std::initializer_list<std::string_view> rows) {
  Mask mask;
  for (const std::string_view row : rows) {
    for (const char c : row) mask.push_back(c == '#');
  }
  return mask;
}

/// By spreading the smallest label to neighbours until nothing changes: the pixels of each component by its first.
std::map<std::int64_t, std::vector<std::int64_t>> spread(const Mask& mask, std::int64_t width, bool diagonal,
                                                         bool wrap) {
  const std::int64_t n = static_cast<std::int64_t>(mask.size());
  std::vector<std::int64_t> label(mask.size());
  for (std::int64_t i = 0; i < n; ++i) label[static_cast<std::size_t>(i)] = i;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::int64_t a = 0; a < n; ++a) {
      for (std::int64_t b = 0; b < n; ++b) {
        if (mask[static_cast<std::size_t>(a)] == 0 || mask[static_cast<std::size_t>(b)] == 0) continue;
        const std::int64_t dy = std::abs(a / width - b / width);
        std::int64_t dx = std::abs(a % width - b % width);
        if (wrap) dx = std::min(dx, width - dx);
        if (!(diagonal ? std::max(dx, dy) == 1 : dx + dy == 1)) continue;
        std::int64_t &la = label[static_cast<std::size_t>(a)], &lb = label[static_cast<std::size_t>(b)];
        changed = changed || la != lb;
        la = lb = std::min(la, lb);
      }
    }
  }
  std::map<std::int64_t, std::vector<std::int64_t>> parts;
  for (std::int64_t i = 0; i < n; ++i) {
    if (mask[static_cast<std::size_t>(i)] != 0) parts[label[static_cast<std::size_t>(i)]].push_back(i);
  }
  return parts;
}

TEST(Components, EqualSpreadLabelsOnRandomMasks) {
  RandomSequence random(random_stream(7, RandomPurpose::kGenerate), 0);
  for (int trial = 0; trial < 40; ++trial) {
    const std::int64_t height = 1 + random.below(9), width = 3 + random.below(9);
    Mask mask(static_cast<std::size_t>(height * width));
    for (std::uint8_t& pixel : mask) pixel = random.uniform() < 0.45;
    for (const bool diagonal : {false, true}) {
      for (const bool wrap : {false, true}) {
        const auto parts = find_components(mask, width, {diagonal, wrap});
        const auto expected = spread(mask, width, diagonal, wrap);
        ASSERT_EQ(parts.size(), expected.size()) << "trial " << trial;
        auto other = expected.begin();
        for (std::size_t i = 0; i < parts.size(); ++i, ++other) {
          EXPECT_EQ(parts[i].pixels, other->second);
          for (const std::int64_t at : parts[i].pixels) {
            const std::int64_t y = at / width, x = at % width;
            EXPECT_TRUE(parts[i].ymin <= y && y <= parts[i].ymax);
            EXPECT_TRUE((parts[i].xmin <= x && x <= parts[i].xmax) || x + width <= parts[i].xmax);
          }
        }
      }
    }
  }
}

TEST(Components, CornersJoinOnlyWithEightNeighbours) {
  const Mask mask = drawn({"#....",  //
                           ".#...",  //
                           "..#.#"});
  EXPECT_EQ(find_components(mask, 5, {}).size(), 4U);
  const auto parts = find_components(mask, 5, {.diagonal = true});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].size(), 3);
  EXPECT_EQ(largest(parts), &parts[0]);
}

TEST(Components, BoxAcrossTheSeamIsTheNarrowest) {
  const Mask mask = drawn({"##...#",  //
                           ".....#"});
  const auto split = find_components(mask, 6, {});
  ASSERT_EQ(split.size(), 2U);
  EXPECT_EQ(split[1].ymax, 1);
  const auto joined = find_components(mask, 6, {.wrap = true});
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined[0].xmin, 5);
  EXPECT_EQ(joined[0].xmax, 7);
  const auto ring = find_components(drawn({"######"}), 6, {.wrap = true});
  EXPECT_EQ(ring[0].xmin, 0);
  EXPECT_EQ(ring[0].xmax, 5);
}

TEST(Components, NoneInAnEmptyMask) {
  const auto parts = find_components(Mask(12), 4, {});
  EXPECT_TRUE(parts.empty());
  EXPECT_EQ(largest(parts), nullptr);
}

}  // namespace
}  // namespace petaflow::climate
