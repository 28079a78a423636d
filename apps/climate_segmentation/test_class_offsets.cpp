// Class offsets against a plain search over pixels; weights of classes.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "climate_segmentation/class_offsets.hpp"
#include "climate_segmentation/class_weights.hpp"
#include "comm/communicator.hpp"

namespace petaflow::climate_segmentation {
namespace {

struct Pixels {
  std::vector<float> logits;
  std::vector<std::uint8_t> known;
};

/// Pixels of which few are events; the events' logits are too high by 2 and 1.
Pixels biased_pixels(std::size_t count) {
  RandomSequence random(random_stream(11, RandomPurpose::kGenerate), 0);
  Pixels pixels;
  for (std::size_t p = 0; p < count; ++p) {
    const double u = random.uniform();
    const std::uint8_t c = u < 0.02 ? 1 : u < 0.1 ? 2 : 0;
    pixels.known.push_back(c);
    for (std::uint8_t k = 0; k < 3; ++k) {
      const double bias = k == 1 ? 2.0 : k == 2 ? 1.0 : 2.5;
      pixels.logits.push_back(static_cast<float>(bias + (k == c ? 2.5 : 0) + random.normal()));
    }
  }
  return pixels;
}

/// The mean of intersection over union, from the definition.
double plain_iou(const Pixels& pixels, const ClassOffsets& offsets) {
  double sum = 0;
  const std::vector<std::uint8_t> predicted = decide(pixels.logits, offsets);
  for (std::uint8_t c = 0; c < 3; ++c) {
    double both = 0, either = 0;
    for (std::size_t p = 0; p < predicted.size(); ++p) {
      both += predicted[p] == c && pixels.known[p] == c ? 1 : 0;
      either += predicted[p] == c || pixels.known[p] == c ? 1 : 0;
    }
    sum += both / either / 3;
  }
  return sum;
}

TEST(ClassOffsets, TheLargestSumDecidesAndTheFirstOfEqualOnes) {
  const std::vector<float> logits = {1, 2, 3, 5, 5, 5, 0, -1, -2};
  EXPECT_EQ(decide(logits), (std::vector<std::uint8_t>{2, 0, 0}));
  EXPECT_EQ(decide(logits, {0, 1.5, 0}), (std::vector<std::uint8_t>{1, 1, 1}));
  EXPECT_EQ(decide(logits, {0, 0, -1.5}), (std::vector<std::uint8_t>{1, 0, 0}));
}

TEST(ClassOffsets, CountsOfBinsAreThoseOfPixels) {
  const Pixels pixels = biased_pixels(20000);
  OffsetSearch search;
  search.add(pixels.logits, pixels.known);
  for (const ClassOffsets offsets : {ClassOffsets{0, 0, 0}, ClassOffsets{0, -1.5, 0.25}, ClassOffsets{0, 2, -3}}) {
    EXPECT_NEAR(search.counts(offsets).mean_iou(), plain_iou(pixels, offsets), 2e-3);
  }
}

TEST(ClassOffsets, SearchFindsTheBestOfAGrid) {
  const Pixels pixels = biased_pixels(20000);
  OffsetSearch search;
  const std::size_t half = pixels.known.size() / 2;  // in two portions
  search.add(std::span(pixels.logits).first(3 * half), std::span(pixels.known).first(half));
  search.add(std::span(pixels.logits).subspan(3 * half), std::span(pixels.known).subspan(half));
  const ClassOffsets found = search.best();
  double best = 0;
  for (double a = -4; a <= 4; a += 0.25) {
    for (double b = -4; b <= 4; b += 0.25) best = std::max(best, plain_iou(pixels, {0, a, b}));
  }
  EXPECT_EQ(found[0], 0);
  EXPECT_GT(plain_iou(pixels, found), best - 2e-3);
  EXPECT_GT(plain_iou(pixels, found), plain_iou(pixels, {}) + 0.03);
}

TEST(ClassOffsets, WithoutPixelsThereAreNone) { EXPECT_EQ(OffsetSearch().best(), ClassOffsets{}); }

TEST(ClassWeights, FollowThePapers) {
  LossOptions options;
  options.frequencies = {0.982, 0.00071, 0.017};
  options.weights = "sqrt";
  const std::vector<float> sqrt = class_weights(options);
  EXPECT_NEAR(sqrt[0], 0.0218, 2e-4);  // as the published code has them
  EXPECT_NEAR(sqrt[1], 0.812, 2e-3);
  EXPECT_NEAR(sqrt[2], 0.166, 1e-3);
  options.weights = "eighth";
  const std::vector<float> eighth = class_weights(options);
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(std::pow(static_cast<double>(eighth[c]), -8), options.frequencies[c], 1e-6);
  }
  options.weights = "given";
  options.class_weights = {1, 2, 3};
  EXPECT_EQ(class_weights(options), (std::vector<float>{1, 2, 3}));
  options.weights = "none";
  EXPECT_TRUE(class_weights(options).empty());
}

}  // namespace
}  // namespace petaflow::climate_segmentation
