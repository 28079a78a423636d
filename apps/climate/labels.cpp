#include "climate/labels.hpp"

#include "climate/boxes.hpp"

namespace petaflow::climate {

void label_frame(Frame& frame, const LabelOptions& options) {
  const std::int64_t width = frame.grid.width();
  const auto rivers = find_rivers(frame, options.rivers);
  frame.labels.assign(rivers.size(), static_cast<std::uint8_t>(Tag::kBackground));
  frame.boxes.clear();
  for (const Component& river : find_components(rivers, width, options.rivers.connectivity)) {
    for (const std::int64_t at : river.pixels) {
      frame.labels[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(Tag::kRiver);
    }
    frame.boxes.push_back(box_around(river, kRiverBox));
  }
  for (const CycloneCandidate& candidate : cyclone_candidates(frame)) {
    if (!is_cyclone(candidate, options.cyclones)) continue;
    const std::vector<std::int64_t> pixels = cyclone_pixels(frame, candidate, options.cyclones);
    if (pixels.empty()) continue;
    for (const std::int64_t at : pixels) {
      frame.labels[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(Tag::kCyclone);
    }
    frame.boxes.push_back(box_around(bounds(pixels, width), candidate.wind < kGaleWind ? kDepressionBox : kCycloneBox));
  }
}

}  // namespace petaflow::climate
