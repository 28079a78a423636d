// One moment of the atmosphere: 16 variables on a grid, with the weather that was marked in it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "climate/fields.hpp"
#include "climate/grid.hpp"

namespace petaflow::climate {

/// A rectangle of pixels around an event, [ymin, ymax) x [xmin, xmax); x beyond the width continues at column 0.
struct Box {
  float ymin = 0, xmin = 0, ymax = 0, xmax = 0;
  std::int32_t kind = 0;  // in kBoxKinds
  bool operator==(const Box&) const = default;
};

/// Kinds of boxes, numbered as ExtremeWeather does (Racah et al. 2017).
inline constexpr std::array<std::string_view, 4> kBoxKinds = {"tropical_depression", "tropical_cyclone",
                                                              "extratropical_cyclone", "atmospheric_river"};

struct Frame {
  Grid grid;
  std::vector<float> fields;         // (16, H, W) in the order of kFields, SI units; row 0 is the southernmost
  std::vector<std::uint8_t> labels;  // (H, W), a Tag each; empty: not known
  std::vector<Box> boxes;
  std::string time;  // "1979-01-31T03:00:00"; empty: not known

  std::int64_t pixels() const { return grid.height() * grid.width(); }
};

}  // namespace petaflow::climate
