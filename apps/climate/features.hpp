// Features of the synthetic weather: vortices (tropical cyclones, cold-core lows) and plumes (rivers, fronts, pools,
// jets). All sizes are in degrees of a great circle, so that they do not depend on the grid; labels follow from the
// shapes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "climate/boxes.hpp"
#include "climate/sphere.hpp"

namespace petaflow::climate {

/// What features add to a background, each (height, width).  Pressure and wind are in balance with each other.
struct Layers {
  std::vector<float> pressure, u850, v850, u_bottom, v_bottom;  // Pa, m/s
  std::vector<float> temperature, t500, t200;                   // K
  std::vector<float> water, rain;                               // kg/m2, m/s

  explicit Layers(std::size_t pixels);
};

/// A round storm with Holland's wind (Mon. Weather Rev. 108 (1980) 1212) in gradient balance.
struct Vortex {
  Place centre;
  double radius = 4;                    // of the storm: there its shields of moisture and rain end
  double core = 0.25;                   // radius of the strongest wind by the storm's
  double steepness = 1.4;               // Holland's b
  double wind = 40;                     // strongest, m/s, in the hemisphere's cyclonic sense
  double u_motion = 0, v_motion = 0;    // m/s; adds to the wind on one side
  double warmth500 = 0, warmth200 = 0;  // K at the centre; below 0: a cold core
  double warm_sector = 0;               // K: warm in front (east), cold behind
  double water = 0, rain = 0;           // kg/m2 and m/s at the centre
  std::int32_t kind = kExtratropicalBox;
};

/// A band along a curved line: moist or dry, with wind along it or without.
struct Plume {
  std::vector<Place> line;     // at equal steps; longitudes do not jump
  double half_width = 2.5;     // where the excess of water has fallen to a half
  double water = 0, rain = 0;  // on the line, at its begin; water falls to 60 % at its end
  double wind = 0;             // m/s along the line
  double warmth = 0;           // K
  bool is_river = false;
};

/// Points of a line: `heading` in degrees from east towards the pole, turned by `bend` (first half) and `bend_back`
/// (second half) degrees towards the pole on the way; ends at 66 degrees of latitude or when it has the length.
std::vector<Place> curved_line(Place start, double heading, double bend, double bend_back, double length);

/// Add a feature to the layers.  The pixels that belong to it: y * width + x, within the storm's radius, or within the
/// half width of a plume's line but for its ends.
std::vector<std::int64_t> add_vortex(const Grid& grid, const Vortex& vortex, Layers& layers);
std::vector<std::int64_t> add_plume(const Grid& grid, const Plume& plume, Layers& layers);

}  // namespace petaflow::climate
