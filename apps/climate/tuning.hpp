// Random search over the thresholds of both heuristics, for a fair comparison with a network: on training frames,
// within a stated number of trials.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "climate/labels.hpp"

namespace petaflow::climate {

/// Pixels by true class (row) and marked class (column).
using ClassCounts = std::array<std::array<std::int64_t, kTagNames.size()>, kTagNames.size()>;

/// Adds pixels, two label maps of one size.
void count_classes(std::span<const std::uint8_t> truth, std::span<const std::uint8_t> marked, ClassCounts& counts);

/// Intersection over union of each class; 1 where a class is in neither map.
std::array<double, kTagNames.size()> class_iou(const ClassCounts& counts);
double mean_iou(const ClassCounts& counts);

struct TunedHeuristics {
  LabelOptions options;
  ClassCounts counts{};  // of these options on the frames
};

/// Draws `trials` sets of criteria for cyclones and as many for rivers, two thirds over wide ranges and the others near
/// the best so far; keeps those with the highest IoU of their class (the two hardly interact: cyclones override
/// rivers). Frames keep their labels.  A function of its arguments alone.
TunedHeuristics tune_heuristics(std::span<const Frame> frames, std::int64_t trials, std::uint64_t seed,
                                RiverField field = RiverField::kWater);

}  // namespace petaflow::climate
