// Class offsets against a plain search over pixels; weights of classes; the augmentation of frames.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "climate_segmentation/class_offsets.hpp"
#include "climate_segmentation/task.hpp"
#include "comm/communicator.hpp"
#include "scratch_folder.hpp"

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

/// A frame whose every number tells its variable and its pixel.
climate::Frame numbered_frame() {
  climate::Frame frame;
  frame.grid = climate::cam5_grid(6, 8);
  for (int f = 0; f < climate::kFieldCount; ++f) {
    for (int p = 0; p < 48; ++p) frame.fields.push_back(static_cast<float>(100 * f + p));
  }
  for (int p = 0; p < 48; ++p) frame.labels.push_back(static_cast<std::uint8_t>(p % 3));
  return frame;
}

TEST(FrameAugmentation, MovesMapAndVariablesTogetherAndTurnsNorthwardWinds) {
  const test::ScratchFolder folder;
  const std::string path = folder / "data-1979-01-01-00-0.h5";
  climate::write_frame(path, numbered_frame());
  climate::ClimateDataOptions options;
  options.height = 6, options.width = 8;
  options.channels = {"PS", "V850"};
  options.offsets = {10, 20};
  options.factors = {1, 0.5};
  options.clip = 0;
  const climate::ClimateData data(options, climate::scan_climate(options, {path}));
  const Augmentation augment = augmentation(AugmentOptions{}, data);
  const SampleStorage changed(data);
  std::set<std::pair<int, bool>> seen;  // turns, and whether it is mirrored
  for (std::uint64_t i = 0; i < 200; ++i) {
    data.read(0, changed.bytes());
    RandomSequence random(random_stream(5, RandomPurpose::kAugment), i);
    augment(changed.bytes(), random);
    const auto pixels = changed.input<float>();
    const auto map = changed.bytes().target<std::uint8_t>(0);
    const auto place = [&](std::size_t p) {  // where the pixel was
      return std::lround(static_cast<double>(pixels[2 * p]) + 10 - 100 * climate::kPs);
    };
    const long first = place(0);
    const bool mirrored = first >= 40;
    seen.insert({static_cast<int>(first % 8), mirrored});
    for (std::size_t p = 0; p < 48; ++p) {
      const long from = place(p);
      ASSERT_EQ(from % 8, (first % 8 + static_cast<long>(p) % 8) % 8);
      ASSERT_EQ(from / 8, mirrored ? 5 - static_cast<long>(p) / 8 : static_cast<long>(p) / 8);
      ASSERT_EQ(map[p], from % 3);
      const double wind = static_cast<double>(pixels[2 * p + 1]) / 0.5 + 20;  // in the file's units
      ASSERT_NEAR(wind, (mirrored ? -1 : 1) * static_cast<double>(100 * climate::kV850 + from), 1e-3);
    }
  }
  EXPECT_EQ(seen.size(), 16U);
  EXPECT_FALSE(augmentation(AugmentOptions{false, false}, data));
}

}  // namespace
}  // namespace petaflow::climate_segmentation
