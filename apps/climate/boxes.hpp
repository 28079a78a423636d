// Boxes around components, and the kinds of boxes by name.
#pragma once

#include "climate/components.hpp"
#include "climate/frame.hpp"

namespace petaflow::climate {

/// Places in kBoxKinds.
enum BoxKind : std::int32_t { kDepressionBox, kCycloneBox, kExtratropicalBox, kRiverBox };

inline Box box_around(const Component& part, std::int32_t kind) {
  return {static_cast<float>(part.ymin), static_cast<float>(part.xmin), static_cast<float>(part.ymax + 1),
          static_cast<float>(part.xmax + 1), kind};
}

}  // namespace petaflow::climate
