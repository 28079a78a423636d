#include "climate/boxes.hpp"

#include <algorithm>
#include <cstddef>

namespace petaflow::climate {

std::vector<Box> joined_across_seam(std::vector<Box> boxes, std::int64_t width) {
  const auto edge = static_cast<float>(width);
  for (std::ptrdiff_t i = 0; i < std::ssize(boxes); ++i) {
    Box& west = boxes[static_cast<std::size_t>(i)];
    if (west.xmax != edge) continue;
    const auto east = std::ranges::find_if(boxes, [&](const Box& other) {
      return other.xmin == 0 && other.xmax < west.xmin && other.kind == west.kind && other.ymin == west.ymin &&
             other.ymax == west.ymax;
    });
    if (east == boxes.end()) continue;
    west.xmax += east->xmax;
    if (east - boxes.begin() < i) --i;
    boxes.erase(east);
  }
  return boxes;
}

}  // namespace petaflow::climate
