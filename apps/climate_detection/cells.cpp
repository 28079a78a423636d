#include "climate_detection/cells.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/detection_loss.hpp"

namespace petaflow::climate_detection {

std::vector<FoundBox> boxes_of_cells(const CellMap& map, const Shape& shape, std::span<const float> scores) {
  const auto channels = static_cast<std::size_t>(shape.c);
  const auto edge = static_cast<float>(map.height) / static_cast<float>(shape.h), bottom = 0.0F,
             top = static_cast<float>(map.height), around = static_cast<float>(map.width);
  std::vector<FoundBox> boxes;
  for (std::int64_t i = 0; i < shape.pixels(); ++i) {
    const std::span<const float> cell = scores.subspan(static_cast<std::size_t>(i) * channels, channels);
    const auto kinds = cell.subspan(kCellKinds);
    const auto kind = std::ranges::max_element(kinds) - kinds.begin();
    const float confidence = cell[kCellBox] * kinds[static_cast<std::size_t>(kind)];
    if (!(static_cast<double>(confidence) >= map.least_confidence)) continue;
    const float x = edge * (static_cast<float>(i % shape.w) + std::clamp(cell[kCellX], 0.0F, 1.0F)),
                y = edge * (static_cast<float>(i / shape.w) + std::clamp(cell[kCellY], 0.0F, 1.0F)),
                half_width = std::min(around, edge * std::exp2(cell[kCellWidth])) / 2,
                half_height = std::min(top, edge * std::exp2(cell[kCellHeight])) / 2;
    boxes.push_back({std::max(bottom, y - half_height), x - half_width, std::min(top, y + half_height), x + half_width,
                     static_cast<std::int32_t>(kind), confidence});
  }
  return without_doubles(std::move(boxes), map.most_overlap, static_cast<double>(map.width));
}

std::vector<FoundBox> boxes_of_target(std::span<const std::byte> target) {
  std::int32_t count = 0;
  std::memcpy(&count, target.data(), sizeof count);
  std::vector<FoundBox> boxes;
  for (std::int32_t i = 0; i < count; ++i) {
    float fields[kBoxFields];
    std::memcpy(fields, target.data() + sizeof count + static_cast<std::size_t>(i) * sizeof fields, sizeof fields);
    boxes.push_back({fields[0], fields[1], fields[2], fields[3], static_cast<std::int32_t>(fields[4])});
  }
  return boxes;
}

}  // namespace petaflow::climate_detection
