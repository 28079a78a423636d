#include "climate_segmentation/augmentation.hpp"

#include <algorithm>
#include <vector>

namespace petaflow::climate_segmentation {
namespace {

/// A channel of a northward wind: -x in units of the file is -x' - twice_zero in those of the sample.
struct NorthwardWind {
  std::size_t channel;
  float twice_zero;
};

std::vector<NorthwardWind> northward_winds(const climate::ClimateData& data) {
  std::vector<NorthwardWind> winds;
  const climate::ChannelScaling& scaling = data.scaling();
  for (std::size_t c = 0; c < data.fields().size(); ++c) {
    if (data.fields()[c] != climate::kV850 && data.fields()[c] != climate::kVbot) continue;
    winds.push_back({c, static_cast<float>(2 * scaling.offsets[c] * scaling.factors[c])});
  }
  return winds;
}

}  // namespace

Augmentation augmentation(const AugmentOptions& options, const climate::ClimateData& train) {
  if (!options.roll && !options.flip) return {};
  return [options, dims = train.sample_dims(), winds = northward_winds(train)](const SampleBytes& sample,
                                                                               RandomSequence& random) {
    const auto [channels, depth, height, width] = dims;
    const std::array<std::int64_t, 4> map_dims = {1, depth, height, width};
    const auto pixels = numbers<float>(sample.input);
    const auto map = sample.target<std::uint8_t>(0);
    const std::uint32_t shift = random.below(static_cast<std::uint32_t>(width));
    const bool turn = random.below(2) == 1;
    if (options.roll) {
      roll(pixels, dims, ImageAxis::kW, shift);
      roll(map, map_dims, ImageAxis::kW, shift);
    }
    if (!options.flip || !turn) return;
    mirror(pixels, dims, ImageAxis::kH);
    mirror(map, map_dims, ImageAxis::kH);
    for (const auto& [channel, twice_zero] : winds) {
      for (std::size_t i = channel; i < pixels.size(); i += static_cast<std::size_t>(channels)) {
        pixels[i] = -pixels[i] - twice_zero;
      }
    }
  };
}

}  // namespace petaflow::climate_segmentation
