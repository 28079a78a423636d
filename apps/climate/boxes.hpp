// Boxes around components, boxes on the circle of longitudes, and the kinds of boxes by name.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "climate/components.hpp"
#include "climate/frame.hpp"

namespace petaflow::climate {

/// Places in kBoxKinds.
enum BoxKind : std::int32_t { kDepressionBox, kCycloneBox, kExtratropicalBox, kRiverBox };

inline Box box_around(const Component& part, std::int32_t kind) {
  return {static_cast<float>(part.ymin), static_cast<float>(part.xmin), static_cast<float>(part.ymax + 1),
          static_cast<float>(part.xmax + 1), kind};
}

/// The same box with its centre in [0, width), so that xmin may be below 0 or xmax above the width.
inline Box centred(Box box, std::int64_t width) {
  const auto circle = static_cast<float>(width);
  const float turn = circle * std::floor((box.xmin + box.xmax) / 2 / circle);
  box.xmin -= turn, box.xmax -= turn;
  return box;
}

/// Boxes of a layout that ends them at the last column and goes on with another one at column 0: two of a kind with the
/// same rows that meet there become one.
std::vector<Box> joined_across_seam(std::vector<Box> boxes, std::int64_t width);

}  // namespace petaflow::climate
