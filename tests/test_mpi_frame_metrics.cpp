// Metrics of maps of classes and of boxes against plain computations pixel by pixel, on any number of ranks.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "comm/communicator.hpp"
#include "metrics/detection.hpp"
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

constexpr std::int64_t kKinds = 3, kRows = 12, kColumns = 16;  // boxes: whole pixels of a map that closes in x
const DetectionRules kRules{.kinds = kKinds, .period = kColumns};

struct BoxSet {
  std::vector<std::vector<FoundBox>> known, found;  // of each frame
};

FoundBox random_box(RandomSequence& random, std::int32_t kind) {
  const auto ymin = static_cast<float>(random.below(kRows - 4)), xmin = static_cast<float>(random.below(kColumns)) - 3,
             height = static_cast<float>(1 + random.below(4)), width = static_cast<float>(1 + random.below(10));
  // Few steps of confidence, so that many are equal.
  return {ymin, xmin, ymin + height, xmin + width, kind, static_cast<float>(1 + random.below(12)) / 16};
}

/// Found boxes are known ones that have moved a little, or any others.  The last kind is not known.
BoxSet random_boxes(std::size_t frames) {
  RandomSequence random(random_stream(9, RandomPurpose::kGenerate), 0);
  BoxSet set;
  for (std::size_t f = 0; f < frames; ++f) {
    std::vector<FoundBox>&known = set.known.emplace_back(), found;
    for (std::uint32_t i = random.below(5); i > 0; --i) {
      known.push_back(random_box(random, static_cast<std::int32_t>(random.below(2))));
    }
    for (const FoundBox& box : known) {
      FoundBox& moved = found.emplace_back(random_box(random, box.kind));
      if (random.below(3) == 0) continue;
      moved = {box.ymin, box.xmin - 1, box.ymax + 1, box.xmax, box.kind, moved.confidence};
      if (random.below(2) == 0) moved.xmin += kColumns, moved.xmax += kColumns;
    }
    for (std::uint32_t i = random.below(4); i > 0; --i) {
      found.push_back(random_box(random, static_cast<std::int32_t>(random.below(3))));
    }
    std::ranges::stable_sort(found, std::greater(), &FoundBox::confidence);
    set.found.push_back(found);
  }
  return set;
}

std::set<std::pair<int, int>> pixels(const FoundBox& box) {
  std::set<std::pair<int, int>> all;
  for (int y = static_cast<int>(box.ymin); y < static_cast<int>(box.ymax); ++y) {
    for (int x = static_cast<int>(box.xmin); x < static_cast<int>(box.xmax); ++x) {
      all.emplace(y, (x + 2 * kColumns) % kColumns);
    }
  }
  return all;
}

double plain_box_iou(const FoundBox& a, const FoundBox& b) {
  const auto of_a = pixels(a), of_b = pixels(b);
  double both = 0;
  for (const auto& pixel : of_a) both += of_b.contains(pixel) ? 1 : 0;
  return both / (static_cast<double>(of_a.size() + of_b.size()) - both);
}

/// Mean over the known boxes of the best precision at which so many are found; all frames at once.
double plain_average_precision(const BoxSet& set, std::int32_t kind, double threshold) {
  std::vector<std::pair<std::size_t, FoundBox>> found;  // with their frames
  std::vector<std::vector<FoundBox>> left = set.known;
  std::size_t known = 0;
  for (std::size_t f = 0; f < left.size(); ++f) {
    std::erase_if(left[f], [&](const FoundBox& box) { return box.kind != kind; });
    known += left[f].size();
    for (const FoundBox& box : set.found[f]) {
      if (box.kind == kind) found.emplace_back(f, box);
    }
  }
  std::ranges::stable_sort(found, std::greater(), [](const auto& item) { return item.second.confidence; });
  std::vector<double> best(known);  // precision when 1, 2, ... are found
  double hits = 0, all = 0;
  for (const auto& [f, box] : found) {
    all += 1;
    const auto nearest =
        std::ranges::max_element(left[f], {}, [&, b = box](const FoundBox& other) { return plain_box_iou(b, other); });
    if (nearest != left[f].end() && plain_box_iou(box, *nearest) >= threshold) {
      left[f].erase(nearest);
      hits += 1;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(hits); ++i) best[i] = std::max(best[i], hits / all);
  }
  double sum = 0;
  for (const double precision : best) sum += precision;
  return sum / static_cast<double>(known);
}

/// What all ranks find, each of every `size`-th frame; on rank 0.
ComparedBoxes compared(Communicator& comm, const BoxSet& set) {
  BoxComparison comparison(kRules);
  for (auto f = static_cast<std::size_t>(comm.rank()); f < set.known.size(); f += static_cast<std::size_t>(comm.size()))
    comparison.add(static_cast<std::int64_t>(f), set.found[f], set.known[f]);
  return comparison.merge(comm);
}

TEST(Detection, EqualsAPlainComputationOnAnyNumberOfRanks) {
  const auto comm = make_communicator();
  const BoxSet set = random_boxes(60);
  const ComparedBoxes boxes = compared(*comm, set);
  if (comm->rank() != 0) {
    EXPECT_TRUE(boxes.matches.empty() && boxes.known.empty());
    return;
  }
  Communicator alone;
  const DetectionReport report = evaluate_detection(boxes, kRules),
                        same = evaluate_detection(compared(alone, set), kRules);
  EXPECT_EQ(report.frames, 60);
  ASSERT_EQ(report.at.size(), 2U);
  for (std::size_t t = 0; t < 2; ++t) {
    double mean = 0;
    for (std::int32_t k = 0; k < 2; ++k) {
      const Metric& found = report.at[t].kinds[static_cast<std::size_t>(k)];
      const double plain = plain_average_precision(set, k, kRules.thresholds[t]);
      EXPECT_TRUE(plain > 0.1 && plain < 0.95) << plain;
      EXPECT_NEAR(*found.value, plain, 1e-12) << "kind " << k << ", threshold " << kRules.thresholds[t];
      EXPECT_EQ(found.value, same.at[t].kinds[static_cast<std::size_t>(k)].value);
      EXPECT_EQ(found.error, same.at[t].kinds[static_cast<std::size_t>(k)].error);
      EXPECT_GT(*found.error, 0);
      mean += plain / 2;
    }
    EXPECT_FALSE(report.at[t].kinds[2].value);
    EXPECT_NEAR(*report.at[t].mean.value, mean, 1e-12);
    EXPECT_EQ(report.at[t].mean.error, same.at[t].mean.error);
  }
  EXPECT_GT(report.found[2], 0);
  EXPECT_EQ(report.known[2], 0);
}

TEST(Detection, CountedByHand) {
  using Ranked = std::vector<RankedBox>;
  EXPECT_EQ(average_precision(Ranked{{true}}, 1), 1);
  EXPECT_EQ(average_precision(Ranked{}, 3), 0);
  EXPECT_TRUE(std::isnan(average_precision(Ranked{{false}}, 0)));
  EXPECT_DOUBLE_EQ(average_precision(Ranked{{true}, {false}, {true}}, 2), (1 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(average_precision(Ranked{{false}, {true}, {true}}, 4), (2.0 / 3 + 2.0 / 3) / 4);
  EXPECT_DOUBLE_EQ(average_precision(Ranked{{true, 2}, {false, 0}, {false, 2}, {true}}, 4), (2 + 3.0 / 5) / 4);

  // Two found boxes on one known: the second is no hit.  A better overlap of a box that is taken does not count.
  BoxComparison comparison({.kinds = 1, .thresholds = {0.5}});
  comparison.add(0, std::vector<FoundBox>{{0, 0, 4, 4, 0, 0.9F}, {0, 0, 4, 5, 0, 0.8F}},
                 std::vector<FoundBox>{{0, 0, 4, 4, 0}, {9, 9, 10, 10, 0}});
  comparison.add(1, std::vector<FoundBox>{{0, 0, 4, 4, 0, 0.7F}, {0, 0, 4, 5, 0, 0.6F}},
                 std::vector<FoundBox>{{0, 0, 4, 6, 0}, {0, 0, 4, 5, 0}});
  Communicator alone;
  std::vector<std::uint32_t> hits;
  for (const BoxMatch& match : comparison.merge(alone).matches) hits.push_back(match.hits);
  EXPECT_EQ(hits, (std::vector<std::uint32_t>{1, 0, 1, 1}));
  EXPECT_THROW(comparison.add(2, std::vector<FoundBox>{{0, 0, 1, 1, 1}}, {}), Error);
}

TEST(Detection, BoxesOverlapAroundTheCircle) {
  RandomSequence random(random_stream(2, RandomPurpose::kGenerate), 0);
  for (int i = 0; i < 300; ++i) {
    const FoundBox a = random_box(random, 0), b = random_box(random, 1);
    ASSERT_NEAR(box_iou(a, b, kColumns), plain_box_iou(a, b), 1e-12);
  }
  const FoundBox east{0, 14, 2, 18}, west{0, 0, 2, 2};
  EXPECT_EQ(box_iou(east, west, 0), 0);
  EXPECT_DOUBLE_EQ(box_iou(east, west, kColumns), 0.5);
  EXPECT_EQ(box_iou({1, 1, 1, 1}, {1, 1, 1, 1}, 0), 0);
}

TEST(Detection, DoublesOfAKindAreDropped) {
  const std::vector<FoundBox> boxes = {{0, 0, 4, 4, 0, 0.5F},
                                       {0, 1, 4, 5, 0, 0.9F},
                                       {0, 0, 4, 4, 1, 0.7F},
                                       {0, 3, 4, 7, 0, 0.6F},
                                       {0, 16, 4, 20, 0, 0.4F}};
  EXPECT_EQ(without_doubles(boxes, 0.5, 0), (std::vector{boxes[1], boxes[2], boxes[3], boxes[4]}));
  EXPECT_EQ(without_doubles(boxes, 0.5, kColumns), (std::vector{boxes[1], boxes[2], boxes[3]}));
  EXPECT_EQ(without_doubles(boxes, 1, 0).size(), 5U);
}

TEST(Detection, SaysWhatHasNoValue) {
  const DetectionReport empty = evaluate_detection({}, kRules);
  EXPECT_EQ(empty.frames, 0);
  EXPECT_EQ(empty.at[0].mean.reason, "no box is known");
  EXPECT_EQ(empty.at[1].kinds[0].reason, "no box of this kind is known");
}

}  // namespace
}  // namespace petaflow
