#include "climate_segmentation/class_weights.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace petaflow::climate_segmentation {

std::vector<double> class_frequencies(const Dataset& data) {
  constexpr std::int64_t kMostFrames = 128;
  const std::int64_t frames = std::min(data.size(), kMostFrames);
  std::vector<double> pixels(climate::kTagNames.size());
  const SampleStorage sample(data);
  for (std::int64_t i = 0; i < frames; ++i) {
    data.read(i * data.size() / frames, sample.bytes());
    for (const std::uint8_t c : sample.bytes().target<std::uint8_t>(0)) pixels.at(c) += 1;
  }
  const double all = std::accumulate(pixels.begin(), pixels.end(), 0.0);
  for (std::size_t c = 0; c < pixels.size(); ++c) {
    if (pixels[c] == 0) {
      user_error(
          "data.train has no pixel of the class {} in {} frames, so loss.weights cannot follow from frequencies; set "
          "loss.frequencies, or loss.weights to \"none\" or \"given\"",
          climate::kTagNames[c], frames);
    }
    pixels[c] /= all;
  }
  return pixels;
}

std::vector<float> class_weights(const LossOptions& options) {
  std::vector<double> weights = options.class_weights;
  if (options.weights != "given") weights.clear();
  if (options.weights == "eighth") {
    for (const double f : options.frequencies) weights.push_back(std::pow(f, -0.125));
  }
  if (options.weights == "sqrt") {
    double sum = 0;
    for (const double f : options.frequencies) sum += 1 / std::sqrt(f);
    for (const double f : options.frequencies) weights.push_back(1 / std::sqrt(f) / sum);
  }
  return {weights.begin(), weights.end()};
}

}  // namespace petaflow::climate_segmentation
