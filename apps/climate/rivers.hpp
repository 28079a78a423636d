// Atmospheric rivers by a threshold and a flood fill: the labels of Kurth et al., SC18, section IV.
#pragma once

#include <span>
#include <vector>

#include "climate/components.hpp"
#include "climate/frame.hpp"

namespace petaflow::climate {

/// Field on which rivers are sought: precipitable water, kg/m2, or integrated vapour transport, kg/(m s).
enum class RiverField { kWater, kTransport };

struct RiverOptions {
  RiverField field = RiverField::kWater;
  double threshold = 24;        // in the field's units; of DeepCAM's laxer labels: 21
  double percentile = 0;        // above 0: the threshold is this percentile of the field damped near the equator
  double latitude_sigma = 19;   // degrees; the field is damped by 1 - exp(-latitude^2 / (2 sigma^2))
  double min_length_km = 1500;  // of the diagonal of the bounding box
  double max_width_km = 1000;   // area by the extent from south to north
  Connectivity connectivity = {};

  /// The older rule: the 94th percentile of the transport, damped within 10 degrees.
  static RiverOptions transport() { return {.field = RiverField::kTransport, .percentile = 94, .latitude_sigma = 10}; }
};

/// The field (height, width) times 1 - exp(-latitude^2 / (2 sigma^2)).
std::vector<double> damped(const Grid& grid, std::span<const float> field, double latitude_sigma);

/// |wind at 850 hPa| times humidity near the surface times the mass of the moist column, kg/(m s), (height, width):
/// stands for the integral over pressure, which frames do not hold.
std::vector<float> vapour_transport(const Frame& frame);

/// Pixels of the field (height, width) where its damped value is above the threshold.
std::vector<std::uint8_t> river_candidates(const Grid& grid, std::span<const float> field, const RiverOptions& options);

/// Pixels of rivers: candidates in a component that is long and narrow.  No two rivers touch.
std::vector<std::uint8_t> find_rivers(const Grid& grid, std::span<const float> field, const RiverOptions& options);

/// As above on the frame's own water or transport.
std::vector<std::uint8_t> find_rivers(const Frame& frame, const RiverOptions& options);

}  // namespace petaflow::climate
