// The search for the heuristics' best thresholds, and what they reach on synthetic weather.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "climate/tuning.hpp"
#include "climate/weather.hpp"

namespace petaflow::climate {
namespace {

std::vector<Frame> frames(std::int64_t first, std::int64_t count) {
  std::vector<Frame> made;
  for (std::int64_t i = first; i < first + count; ++i) made.push_back(weather_frame({}, cam5_grid(96, 144), 7, i));
  return made;
}

ClassCounts marked(const std::vector<Frame>& truth, const LabelOptions& options) {
  ClassCounts counts{};
  for (Frame frame : truth) {
    const auto labels = frame.labels;
    label_frame(frame, options);
    count_classes(labels, frame.labels, counts);
  }
  return counts;
}

void say(const char* what, const ClassCounts& counts) {
  const auto iou = class_iou(counts);
  fmt::print("{}: mean {:.3f}, background {:.3f}, cyclones {:.3f}, rivers {:.3f}\n", what, mean_iou(counts), iou[0],
             iou[1], iou[2]);
}

TEST(Iou, IsIntersectionOverUnion) {
  const std::vector<std::uint8_t> truth = {0, 0, 1, 1, 2, 2, 2, 0}, found = {0, 1, 1, 0, 2, 2, 0, 0};
  ClassCounts counts{};
  count_classes(truth, found, counts);
  const auto iou = class_iou(counts);
  EXPECT_DOUBLE_EQ(iou[0], 2.0 / 5);
  EXPECT_DOUBLE_EQ(iou[1], 1.0 / 3);
  EXPECT_DOUBLE_EQ(iou[2], 2.0 / 3);
  EXPECT_DOUBLE_EQ(mean_iou(counts), (2.0 / 5 + 1.0 / 3 + 2.0 / 3) / 3);
  EXPECT_DOUBLE_EQ(class_iou({})[1], 1);
}

TEST(Tuning, RecoversTheOptionsThatMadeTheLabels) {
  std::vector<Frame> truth = frames(0, 6);
  LabelOptions options;
  options.rivers.threshold = 28, options.rivers.min_length_km = 1000, options.rivers.max_width_km = 2000;
  options.cyclones = {
      .min_vorticity = 4e-5, .min_pressure_rise = 300, .min_core_warmth = 0.4, .box_margin = 2, .percentile = 70};
  for (Frame& frame : truth) label_frame(frame, options);
  const auto tuned = tune_heuristics(truth, 300, 3);
  const auto iou = class_iou(tuned.counts);
  say("recovered", tuned.counts);
  EXPECT_GT(iou[1], 0.7);
  EXPECT_GT(iou[2], 0.6);
}

TEST(Tuning, ImprovesOnThePublishedThresholdsAndCountsWhatItsOptionsMark) {
  const std::vector<Frame> train = frames(0, 30), test = frames(1000, 50);
  const auto begin = std::chrono::steady_clock::now();
  const auto tuned = tune_heuristics(train, 500, 3);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  fmt::print("500 trials on 30 frames: {:.1f} s\n", seconds.count());
  say("published, training frames", marked(train, {}));
  say("tuned, training frames", tuned.counts);
  say("tuned, 50 other frames", marked(test, tuned.options));
  EXPECT_GT(mean_iou(tuned.counts), mean_iou(marked(train, {})));
  EXPECT_EQ(tuned.counts, marked(train, tuned.options));
  const auto again = tune_heuristics(std::span(train).first(3), 20, 3),
             same = tune_heuristics(std::span(train).first(3), 20, 3);
  EXPECT_EQ(again.counts, same.counts);
}

}  // namespace
}  // namespace petaflow::climate
