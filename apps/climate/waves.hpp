// Random smooth fields on the sphere that drift with time: sums of zonal waves whose amplitudes vary with latitude.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "climate/grid.hpp"

namespace petaflow::climate {

/// Shape of a random field in degrees, independent of the grid.
struct WaveShape {
  int waves = 8;         // zonal wave numbers 0 to this
  double width = 12;     // degrees of latitude over which amplitudes change
  double slope = 1;      // the variance of wave k falls as (1 + k)^-slope
  double drift_m_s = 8;  // mean speed eastward
};

/// The factors exp(i k longitude) of a grid's columns, shared by all fields of a frame.
class ZonalWaves {
 public:
  ZonalWaves(const Grid& grid, int waves);
  const float* cosine(int k) const { return cosine_.data() + static_cast<std::ptrdiff_t>(k) * width_; }
  const float* sine(int k) const { return sine_.data() + static_cast<std::ptrdiff_t>(k) * width_; }
  int waves() const { return waves_; }

 private:
  int waves_;
  std::int64_t width_;
  std::vector<float> cosine_, sine_;  // (waves + 1, width)
};

/// A field (height, width) of mean 0 and variance 1 (over fields) in every row, `hours` after the time to which its
/// random numbers belong; even along a row at a pole.
std::vector<float> random_field(const Grid& grid, const ZonalWaves& zonal, const WaveShape& shape,
                                const RandomStream& stream, double hours);

}  // namespace petaflow::climate
