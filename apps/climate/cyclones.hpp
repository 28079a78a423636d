// Tropical cyclones by criteria like TECA's and the masks around them: the labels of Kurth et al., SC18, section IV.
// The criteria are those of Vitart et al., J. Climate 10 (1997) and Knutson et al., BAMS 88 (2007), which TECA
// (github.com/LBL-EESA/TECA) implements; here on single frames: without tracks.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "climate/frame.hpp"
#include "climate/sphere.hpp"

namespace petaflow::climate {

inline constexpr double kGaleWind = 17.5;  // m/s: 34 knots

struct CycloneOptions {
  double min_vorticity = 1.6e-4;   // of the wind at 850 hPa, 1/s, in the hemisphere's cyclonic sense
  double min_pressure_rise = 400;  // Pa, from the minimum outwards in every direction
  double min_core_warmth = 0.8;    // K, fall of (T200 + T500) / 2 from the core outwards in every direction
  double min_wind = 17;            // m/s at the lowest level
  double max_latitude = 50;        // degrees
  double box_margin = 6.6;         // degrees that a box reaches beyond the storm's radius
  double percentile = 93;          // of a field in the box: what is above may be storm
};

/// The sets of criteria with which the published labels were made, by name.
inline constexpr std::array<std::string_view, 4> kCycloneSets = {"default", "medium", "relaxed", "super_relaxed"};
/// Throws a user error that lists the names.
CycloneOptions cyclone_set(std::string_view name);

/// A maximum of vorticity within 7.75 degrees and what is measured around it.
struct CycloneCandidate {
  Place centre;              // of the lowest pressure within 2 degrees
  double vorticity = 0;      // 1/s, cyclonic
  double pressure_rise = 0;  // Pa, least over the directions, within 5 degrees
  double core_warmth = 0;    // K, least over the directions, within 5 degrees of the warmest pixel within 2 degrees
  double wind = 0;           // m/s, strongest at the lowest level within 5 degrees
  double radius = 0;         // degrees within which the mean wind over directions is a gale
};

/// Candidates above the lowest vorticity that any set asks for.
std::vector<CycloneCandidate> cyclone_candidates(const Frame& frame);

bool is_cyclone(const CycloneCandidate& candidate, const CycloneOptions& options);

/// Pixels (y * width + x) of a storm: in the square box around it, for TMQ, U850, V850 and PRECT the largest region
/// above the field's percentile, and of their union the largest region (8 neighbours).
std::vector<std::int64_t> cyclone_pixels(const Frame& frame, const CycloneCandidate& storm,
                                         const CycloneOptions& options);

}  // namespace petaflow::climate
