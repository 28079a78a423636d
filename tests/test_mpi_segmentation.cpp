// Metrics of maps of classes against maps counted pixel by pixel, on any number of ranks.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "comm/communicator.hpp"
#include "metrics/segmentation.hpp"

namespace petaflow {
namespace {

using Map = std::vector<std::uint8_t>;
constexpr std::int64_t kClasses = 3;

struct Maps {
  std::vector<Map> known, predicted;
};

/// Frames of some pixels; the last class is neither known nor predicted in every third one.
Maps random_maps(std::size_t frames, std::size_t pixels) {
  RandomSequence random(random_stream(7, RandomPurpose::kGenerate), 0);
  Maps maps;
  for (std::size_t f = 0; f < frames; ++f) {
    const auto draw = [&] {
      Map map;
      for (std::size_t p = 0; p < pixels; ++p) {
        const auto c = static_cast<std::uint8_t>(random.uniform() < 0.7 ? 0 : 1 + random.below(2));
        map.push_back(f % 3 == 0 && c == 2 ? 0 : c);
      }
      return map;
    };
    maps.known.push_back(draw());
    maps.predicted.push_back(draw());
  }
  return maps;
}

/// Intersection over union of a class in some frames, from the definition; -1: empty.
double plain_iou(const Maps& maps, std::size_t first, std::size_t last, int c) {
  double both = 0, either = 0;
  for (std::size_t f = first; f < last; ++f) {
    for (std::size_t p = 0; p < maps.known[f].size(); ++p) {
      const bool known = maps.known[f][p] == c, predicted = maps.predicted[f][p] == c;
      both += known && predicted ? 1 : 0;
      either += known || predicted ? 1 : 0;
    }
  }
  return either > 0 ? both / either : -1;
}

/// What all ranks find, each of every `size`-th frame; on rank 0.
std::vector<PixelCounts> counted(Communicator& comm, const Maps& maps) {
  FrameCounts counts(kClasses);
  for (auto f = static_cast<std::size_t>(comm.rank()); f < maps.known.size();
       f += static_cast<std::size_t>(comm.size()))
    counts.add(static_cast<std::int64_t>(f), maps.known[f], maps.predicted[f]);
  return counts.merge(comm);
}

TEST(Segmentation, EqualsAPlainComputation) {
  const auto comm = make_communicator();
  const Maps maps = random_maps(9, 50);
  const std::vector<PixelCounts> frames = counted(*comm, maps);
  if (comm->rank() != 0) {
    EXPECT_TRUE(frames.empty());
    return;
  }
  ASSERT_EQ(frames.size(), 9U);
  const SegmentationReport report = evaluate_segmentation(frames, kClasses);
  double mean = 0, right = 0, mlperf = 0;
  for (int c = 0; c < kClasses; ++c) {
    const double iou = plain_iou(maps, 0, 9, c);
    EXPECT_NEAR(*report.iou[static_cast<std::size_t>(c)].value, iou, 1e-14);
    EXPECT_GT(*report.iou[static_cast<std::size_t>(c)].error, 0);
    mean += iou / kClasses;
    for (std::size_t f = 0; f < 9; ++f) {
      const double of_frame = plain_iou(maps, f, f + 1, c);
      mlperf += (of_frame < 0 ? 1 : of_frame) / kClasses / 9;
    }
  }
  EXPECT_LT(plain_iou(maps, 0, 1, 2), 0);  // the rule for absent classes decides
  for (std::size_t f = 0; f < 9; ++f) {
    for (std::size_t p = 0; p < 50; ++p) right += maps.known[f][p] == maps.predicted[f][p] ? 1 : 0;
  }
  EXPECT_EQ(report.frames, 9);
  EXPECT_NEAR(*report.iou_mean.value, mean, 1e-14);
  EXPECT_NEAR(*report.iou_mlperf.value, mlperf, 1e-14);
  EXPECT_NEAR(*report.accuracy.value, right / 450, 1e-14);
}

TEST(Segmentation, CountedByHand) {
  PixelCounts counts(kClasses);
  counts.at(0, 0) = 5, counts.at(0, 1) = 1, counts.at(1, 0) = 2, counts.at(1, 1) = 3;
  EXPECT_EQ(counts.known(0), 6);
  EXPECT_EQ(counts.predicted(0), 7);
  EXPECT_DOUBLE_EQ(counts.iou(0), 5.0 / 8);
  EXPECT_DOUBLE_EQ(counts.iou(1), 3.0 / 6);
  EXPECT_TRUE(std::isnan(counts.iou(2)));
  EXPECT_DOUBLE_EQ(counts.mean_iou(), (5.0 / 8 + 3.0 / 6) / 2);
  EXPECT_DOUBLE_EQ(counts.mean_iou_mlperf(), (5.0 / 8 + 3.0 / 6 + 1) / 3);
  EXPECT_DOUBLE_EQ(counts.accuracy(), 8.0 / 11);
}

TEST(Segmentation, SaysWhatHasNoValue) {
  const std::vector<PixelCounts> none;
  const SegmentationReport empty = evaluate_segmentation(none, kClasses);
  for (const Metric* metric : {&empty.iou[0], &empty.iou_mean, &empty.iou_mlperf, &empty.accuracy}) {
    EXPECT_FALSE(metric->value);
    EXPECT_FALSE(metric->reason.empty());
  }
  std::vector<PixelCounts> one(1, PixelCounts(kClasses));
  one[0].at(0, 0) = 4;
  const SegmentationReport report = evaluate_segmentation(one, kClasses);
  EXPECT_EQ(report.iou_mean.value, 1);
  EXPECT_FALSE(report.iou_mean.error);  // a bootstrap over one frame says nothing
  EXPECT_FALSE(report.iou[2].value);
}

/// The spread of the mean over sets of frames drawn from a known distribution.
TEST(Segmentation, BootstrapErrorIsTheSpreadOfNewSets) {
  RandomSequence random(random_stream(3, RandomPurpose::kGenerate), 1);
  constexpr int kFrames = 60, kSets = 300;
  const auto draw = [&] {
    std::vector<PixelCounts> frames;
    for (int f = 0; f < kFrames; ++f) {
      PixelCounts& counts = frames.emplace_back(kClasses);
      const double right = random.below(11);
      counts.at(0, 0) = 90, counts.at(1, 1) = right, counts.at(1, 0) = 10 - right;
    }
    return frames;
  };
  double sum = 0, squares = 0, errors = 0;
  for (int s = 0; s < kSets; ++s) {
    const SegmentationReport report = evaluate_segmentation(draw(), kClasses);
    sum += *report.iou[1].value;
    squares += *report.iou[1].value * *report.iou[1].value;
    errors += *report.iou[1].error / kSets;
  }
  const double spread = std::sqrt(squares / kSets - sum / kSets * sum / kSets);
  EXPECT_NEAR(errors, spread, 0.15 * spread);
}

}  // namespace
}  // namespace petaflow
