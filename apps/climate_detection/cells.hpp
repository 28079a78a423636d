// What the cells of a map say, as boxes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/shape.hpp"
#include "metrics/detection.hpp"

namespace petaflow::climate_detection {

struct CellMap {
  std::int64_t height, width;  // of the frame in pixels
  double least_confidence, most_overlap;
};

/// The boxes of a frame by falling confidence: of each cell one of its likeliest kind, with the probability of a box
/// times that of the kind, without doubles.  Rows are cut at the poles; the centre lies in the cell, and a box that
/// reaches out in the west or east goes on at the other side.
/// @param shape   of the cells (n = 1)
/// @param scores  (H, W, C) of DetectionLoss
std::vector<FoundBox> boxes_of_cells(const CellMap& map, const Shape& shape, std::span<const float> scores);

/// Boxes as targets of a sample have them (BoxTarget).
std::vector<FoundBox> boxes_of_target(std::span<const std::byte> target);

}  // namespace petaflow::climate_detection
