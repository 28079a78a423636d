#include "climate/augmentation.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "climate/boxes.hpp"

namespace petaflow::climate {
namespace {

/// A channel of a northward wind: -x in units of the file is -x' - twice_zero in those of the sample.
struct NorthwardWind {
  std::size_t channel;
  float twice_zero;
};

std::vector<NorthwardWind> northward_winds(const ClimateData& data) {
  std::vector<NorthwardWind> winds;
  const ChannelScaling& scaling = data.scaling();
  for (std::size_t c = 0; c < data.fields().size(); ++c) {
    if (data.fields()[c] != kV850 && data.fields()[c] != kVbot) continue;
    winds.push_back({c, static_cast<float>(2 * scaling.offsets[c] * scaling.factors[c])});
  }
  return winds;
}

struct Movement {
  std::int64_t shift = 0;  // columns eastward
  bool turn = false;       // north and south change places
};

void move_map(std::span<std::uint8_t> map, const Movement& by, const std::array<std::int64_t, 4>& dims) {
  if (by.shift != 0) roll(map, dims, ImageAxis::kW, by.shift);
  if (by.turn) mirror(map, dims, ImageAxis::kH);
}

void move_boxes(BoxTarget boxes, const Movement& by, std::int64_t height, std::int64_t width) {
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const std::span<float> fields = boxes[i];
    Box box{fields[0], fields[1], fields[2], fields[3]};
    box.xmin += static_cast<float>(by.shift), box.xmax += static_cast<float>(by.shift);
    box = centred(box, width);
    const auto edge = static_cast<float>(height);
    if (by.turn) std::tie(box.ymin, box.ymax) = std::pair(edge - box.ymax, edge - box.ymin);
    std::ranges::copy(std::array{box.ymin, box.xmin, box.ymax, box.xmax}, fields.begin());
  }
}

}  // namespace

Augmentation augmentation(const AugmentOptions& options, const ClimateData& train) {
  if (!options.roll && !options.flip) return {};
  return [options, dims = train.sample_dims(), targets = train.targets(), winds = northward_winds(train)](
             const SampleBytes& sample, RandomSequence& random) {
    const auto [channels, depth, height, width] = dims;
    const auto pixels = numbers<float>(sample.input);
    Movement by;
    by.shift = random.below(static_cast<std::uint32_t>(width));
    by.turn = random.below(2) == 1 && options.flip;
    if (!options.roll) by.shift = 0;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      if (targets[t].kind == TargetKind::kClassMap) {
        move_map(sample.target<std::uint8_t>(t), by, {1, depth, height, width});
      } else {
        move_boxes(BoxTarget(sample.targets[t], targets[t].fields), by, height, width);
      }
    }
    if (by.shift != 0) roll(pixels, dims, ImageAxis::kW, by.shift);
    if (!by.turn) return;
    mirror(pixels, dims, ImageAxis::kH);
    for (const auto& [channel, twice_zero] : winds) {
      for (std::size_t i = channel; i < pixels.size(); i += static_cast<std::size_t>(channels)) {
        pixels[i] = -pixels[i] - twice_zero;
      }
    }
  };
}

}  // namespace petaflow::climate
