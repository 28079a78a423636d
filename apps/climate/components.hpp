// Connected components of a mask on the (latitude, longitude) grid.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace petaflow::climate {

struct Connectivity {
  bool diagonal = false;  // 8 neighbours instead of 4
  bool wrap = false;      // the last column neighbours the first
};

/// Set pixels that hang together.  Rows and columns are inclusive; a component across the seam has xmax >= the grid's
/// width, and the box is the narrowest that holds it.
struct Component {
  std::int64_t ymin = 0, xmin = 0, ymax = 0, xmax = 0;
  std::vector<std::int64_t> pixels;  // y * width + x, ascending

  std::int64_t size() const { return static_cast<std::int64_t>(pixels.size()); }
};

/// The components of a mask (height, width), in the order of their first pixels.
std::vector<Component> find_components(std::span<const std::uint8_t> mask, std::int64_t width,
                                       const Connectivity& connectivity);

/// The pixels (not empty) and the box around them, the narrowest in a longitude that closes.
Component bounds(std::vector<std::int64_t> pixels, std::int64_t width);

/// The component with the most pixels, the first of equals; nullptr where there is none.
const Component* largest(std::span<const Component> components);

}  // namespace petaflow::climate
