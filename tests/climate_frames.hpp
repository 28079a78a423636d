// Frames of made-up numbers for tests of the climate library.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/random.hpp"
#include "climate/frame.hpp"

namespace petaflow::test {

/// Mean and deviation of the variables in DeepCAM, about.
inline constexpr std::array<std::array<double, 2>, 16> kFieldScale = {{{18.7, 15.9},
                                                                       {1.57, 8.3},
                                                                       {0.21, 6.2},
                                                                       {0.12, 6.6},
                                                                       {0.21, 5.7},
                                                                       {7.6e-3, 6.2e-3},
                                                                       {96600, 9000},
                                                                       {100800, 1460},
                                                                       {213, 13},
                                                                       {252, 18},
                                                                       {3e-8, 1.6e-7},
                                                                       {279, 19},
                                                                       {278, 20},
                                                                       {475, 830},
                                                                       {11700, 860},
                                                                       {61, 5}}};

/// Every number differs from its neighbours, labels of all classes.
inline climate::Frame made_frame(std::int64_t height, std::int64_t width, std::uint64_t seed) {
  RandomSequence random(random_stream(seed, RandomPurpose::kGenerate), 0);
  climate::Frame frame;
  frame.grid = climate::cam5_grid(height, width);
  frame.time = "1996-06-05T06:00:00";
  for (const auto& [mean, deviation] : kFieldScale) {
    for (std::int64_t p = 0; p < height * width; ++p) {
      frame.fields.push_back(static_cast<float>(mean + deviation * random.normal()));
    }
  }
  for (std::int64_t p = 0; p < height * width; ++p) {
    frame.labels.push_back(static_cast<std::uint8_t>(random.below(3)));
  }
  return frame;
}

}  // namespace petaflow::test
