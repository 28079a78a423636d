// Augmentation: what rolls and mirrors do to every pixel, and that their parts are independent.
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "data/augment.hpp"

namespace petaflow {
namespace {

class Augment : public testing::Test {
 protected:
  static constexpr std::array<std::int64_t, 4> kDims = {2, 2, 3, 5};  // C, D, H, W
  std::vector<float> image_ = std::vector<float>(60);
  void SetUp() override { std::iota(image_.begin(), image_.end(), 1.0F); }
  static float at(const std::vector<float>& image, std::int64_t d, std::int64_t h, std::int64_t w, std::int64_t c) {
    return image[static_cast<std::size_t>(((d * 3 + h) * 5 + w) * 2 + c)];
  }
};

TEST_F(Augment, RollMovesAlongOneAxis) {
  auto rolled = image_;
  roll(rolled, kDims, ImageAxis::kW, 2);
  EXPECT_EQ(at(rolled, 1, 2, 0, 1), at(image_, 1, 2, 3, 1));
  EXPECT_EQ(at(rolled, 0, 1, 4, 0), at(image_, 0, 1, 2, 0));
  EXPECT_EQ(std::accumulate(rolled.begin(), rolled.end(), 0.0), std::accumulate(image_.begin(), image_.end(), 0.0));
  roll(rolled, kDims, ImageAxis::kW, 3);
  EXPECT_EQ(rolled, image_);  // a whole turn
  roll(rolled, kDims, ImageAxis::kH, -1);
  EXPECT_EQ(at(rolled, 1, 0, 4, 1), at(image_, 1, 1, 4, 1));
  EXPECT_EQ(at(rolled, 1, 2, 4, 1), at(image_, 1, 0, 4, 1));
}

TEST_F(Augment, MirrorTwiceIsNothing) {
  for (const ImageAxis axis : {ImageAxis::kH, ImageAxis::kW}) {
    auto mirrored = image_;
    mirror(mirrored, kDims, axis);
    EXPECT_EQ(at(mirrored, 1, 0, 1, 1), axis == ImageAxis::kH ? at(image_, 1, 2, 1, 1) : at(image_, 1, 0, 3, 1));
    mirror(mirrored, kDims, axis);
    EXPECT_EQ(mirrored, image_);
  }
}

TEST_F(Augment, ViewsAreTheImageAndItsMirrors) {
  std::set<std::vector<float>> seen;
  for (const auto& view : mirrored_views(kDims)) {
    auto image = image_;
    view(std::as_writable_bytes(std::span(image)));
    seen.insert(image);
  }
  auto rows = image_, columns = image_;
  mirror(rows, kDims, ImageAxis::kH);
  mirror(columns, kDims, ImageAxis::kW);
  auto both = rows;
  mirror(both, kDims, ImageAxis::kW);
  EXPECT_EQ(seen, (std::set<std::vector<float>>{image_, rows, columns, both}));
}

TEST_F(Augment, EachPartCanBeSwitchedOffWithoutChangingTheOthers) {
  const auto run = [&](const AugmentOptions& options, std::uint64_t index) {
    auto image = image_;
    RandomSequence random(random_stream(5, RandomPurpose::kAugment, 3), index);
    DetectorAugment(kDims, options)({std::as_writable_bytes(std::span(image))}, random);
    return image;
  };
  std::set<std::vector<float>> seen;
  for (std::uint64_t i = 0; i < 400; ++i) {
    EXPECT_EQ(run({ImageAxis::kW, false, false, false}, i), image_);
    auto parts = run({ImageAxis::kW, true, false, false}, i);
    const bool flips = run({ImageAxis::kW, false, true, false}, i) != image_;
    const bool turns = run({ImageAxis::kW, false, false, true}, i) != image_;
    if (flips) mirror(parts, kDims, ImageAxis::kW);
    if (turns) mirror(parts, kDims, ImageAxis::kH);
    const auto whole = run({ImageAxis::kW, true, true, true}, i);
    EXPECT_EQ(whole, parts);
    EXPECT_EQ(std::set<float>(whole.begin(), whole.end()), std::set<float>(image_.begin(), image_.end()));
    seen.insert(whole);
  }
  EXPECT_EQ(seen.size(), 20U);                                // 5 rolls, 2 flips, 2 mirrors: all of them occur
  auto turned = run({ImageAxis::kH, true, false, false}, 1);  // phi on the other axis: columns stay columns
  EXPECT_EQ(at(turned, 0, 0, 3, 1) - at(turned, 0, 0, 2, 1), 2.0F);
}

}  // namespace
}  // namespace petaflow
