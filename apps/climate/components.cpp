#include "climate/components.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace petaflow::climate {
namespace {

/// Widens the component's box to the pixel.
void include(Component& part, std::int64_t y, std::int64_t x) {
  part.ymin = std::min(part.ymin, y), part.ymax = std::max(part.ymax, y);
  part.xmin = std::min(part.xmin, x), part.xmax = std::max(part.xmax, x);
}

/// Sets the columns of the narrowest box around pixels in the first and the last column: the complement of the widest
/// run of columns without a pixel.
void set_columns_across_seam(Component& part, std::int64_t width) {
  std::vector<bool> used(static_cast<std::size_t>(width));
  for (const std::int64_t at : part.pixels) used[static_cast<std::size_t>(at % width)] = true;
  std::int64_t widest = 0, after = 0;
  for (std::int64_t x = 0, run = 0; x < width; ++x) {
    run = used[static_cast<std::size_t>(x)] ? 0 : run + 1;
    if (run > widest) widest = run, after = x + 1;
  }
  if (widest == 0) return;
  part.xmin = after;
  part.xmax = after + width - widest - 1;
}

/// The box of one pixel, without members.
Component begin_component(std::int64_t at, std::int64_t width) {
  return {at / width, at % width, at / width, at % width, {}};
}

}  // namespace

std::vector<Component> find_components(std::span<const std::uint8_t> mask, std::int64_t width,
                                       const Connectivity& connectivity) {
  PETAFLOW_REQUIRE(width > 0 && mask.size() % static_cast<std::size_t>(width) == 0, "{} pixels in rows of {}",
                   mask.size(), width);
  const std::int64_t height = static_cast<std::int64_t>(mask.size()) / width;
  std::vector<Component> parts;
  std::vector<std::uint8_t> open(mask.begin(), mask.end());  // set and not yet reached
  for (std::int64_t seed = 0; seed < height * width; ++seed) {
    if (open[static_cast<std::size_t>(seed)] == 0) continue;
    Component& part = parts.emplace_back(begin_component(seed, width));
    part.pixels.push_back(seed);
    open[static_cast<std::size_t>(seed)] = 0;
    for (std::size_t next = 0; next < part.pixels.size(); ++next) {
      const std::int64_t y = part.pixels[next] / width, x = part.pixels[next] % width;
      include(part, y, x);
      for (std::int64_t dy = -1; dy <= 1; ++dy) {
        if (y + dy < 0 || y + dy >= height) continue;
        for (std::int64_t dx = -1; dx <= 1; ++dx) {
          if (!connectivity.diagonal && dx != 0 && dy != 0) continue;
          std::int64_t column = x + dx;
          if (column < 0 || column >= width) {
            if (!connectivity.wrap) continue;
            column = column < 0 ? width - 1 : 0;
          }
          const std::int64_t at = (y + dy) * width + column;
          if (open[static_cast<std::size_t>(at)] == 0) continue;
          open[static_cast<std::size_t>(at)] = 0;
          part.pixels.push_back(at);
        }
      }
    }
    std::sort(part.pixels.begin(), part.pixels.end());
    if (connectivity.wrap && part.xmin == 0 && part.xmax == width - 1) set_columns_across_seam(part, width);
  }
  return parts;
}

Component bounds(std::vector<std::int64_t> pixels, std::int64_t width) {
  PETAFLOW_REQUIRE(!pixels.empty(), "bounds of no pixels");
  Component part = begin_component(pixels.front(), width);
  for (const std::int64_t at : pixels) include(part, at / width, at % width);
  part.pixels = std::move(pixels);
  std::sort(part.pixels.begin(), part.pixels.end());
  if (part.xmin == 0 && part.xmax == width - 1) set_columns_across_seam(part, width);
  return part;
}

const Component* largest(std::span<const Component> components) {
  const auto at = std::max_element(components.begin(), components.end(),
                                   [](const Component& a, const Component& b) { return a.size() < b.size(); });
  return at == components.end() ? nullptr : &*at;
}

}  // namespace petaflow::climate
