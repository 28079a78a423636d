// What is in the sky of one series of synthetic frames, drawn at random: events that are labelled and others that look
// like them to who sees one pixel.
#pragma once

#include <cstdint>
#include <vector>

#include "climate/features.hpp"

namespace petaflow::climate {

struct Situation {
  std::vector<Vortex> vortices;  // tropical cyclones and depressions, extratropical lows, small cold-core lows
  std::vector<Plume> plumes;     // rivers, fronts of the lows, moist pools, dry jets, moist surges
};

/// The features `hours` after the begin of the series; `season` as of make_background.  A function of its arguments
/// alone.
Situation draw_situation(std::uint64_t seed, std::int64_t series, double hours, double season);

}  // namespace petaflow::climate
