// A universe of the CosmoFlow data set: dark matter particles in a box, counted in voxels at four redshifts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cosmoflow/cosmology.hpp"
#include "cosmoflow/lagrangian_field.hpp"

namespace petaflow::cosmoflow {

/// Redshifts of the channels of a cube (Mathuriya et al., SC18; the MLPerf HPC data set), latest first.
inline constexpr std::array<double, 4> kRedshifts = {0, 0.5, 1.5, 3};

/// The parameters that networks learn, in the order of the labels.
inline constexpr std::array<const char*, 4> kParameterNames = {"Omega_m", "sigma_8", "n_s", "H_0"};
inline constexpr std::array<const char*, 4> kParameterUnits = {"", "", "", "km/s/Mpc"};
/// The options of their ranges.
inline constexpr std::array<const char*, 4> kRangeKeys = {"data.omega_m", "data.sigma_8", "data.n_s", "data.h_0"};
using Parameters = std::array<double, kParameterNames.size()>;

/// The lowest and the highest value of each, between which they are uniform: by default +-10 % around 0.3, 0.8, 0.96
/// and 70, as in the MLPerf HPC data set.  (Mathuriya et al., SC18: Omega_m 0.25 to 0.35, sigma_8 0.78 to 0.95, n_s 0.9
/// to 1.0, H_0 70.3.)
struct ParameterRanges {
  std::vector<double> omega_m = {0.27, 0.33}, sigma_8 = {0.72, 0.88}, n_s = {0.864, 1.056}, h_0 = {63, 77};

  double low(std::size_t parameter) const { return of(parameter).front(); }
  double high(std::size_t parameter) const { return of(parameter).back(); }
  double middle(std::size_t parameter) const { return (low(parameter) + high(parameter)) / 2; }
  double half_width(std::size_t parameter) const { return (high(parameter) - low(parameter)) / 2; }
  const std::vector<double>& of(std::size_t parameter) const;
};

/// Throws a user error naming the option below `data`.
void check(const ParameterRanges& ranges);

/// The labels: -1 at the low end of the range, 1 at the high end (0 where they are the same).
Parameters to_labels(const ParameterRanges& ranges, const Parameters& physical);

/// The parameters of a universe, a function of ranges, seed and universe alone.
Parameters draw_parameters(const ParameterRanges& ranges, std::uint64_t seed, std::int64_t universe);

struct UniverseOptions {
  std::int64_t particles = 128;  // along an edge, as many as voxels; even
  double box = 256;              // length of an edge, Mpc/h
};

/// Throws a user error naming the option below `generate`.
void check(const UniverseOptions& options);

/// Independent standard normal numbers, n^3, x slowest; a function of seed, universe and place alone.
void white_noise(std::uint64_t seed, std::int64_t universe, std::span<float> noise);

/// Makes one universe after the other with the memory (44 bytes per particle) and the plans of the first; all
/// threads work.
class UniverseMaker {
 public:
  explicit UniverseMaker(const UniverseOptions& options);

  /// Particle counts (x, y, z, redshift) of the universe; each channel adds up to n^3.  The same bits on any number of
  /// threads.  Valid until the next call.
  std::span<const std::int16_t> make(const Parameters& parameters, std::uint64_t seed, std::int64_t universe);

 private:
  LagrangianField field_;
  std::vector<float> noise_;
  std::vector<std::int32_t> channel_;
  std::vector<std::int16_t> counts_;
};

/// Cuts a cube (n, n, n, channels) into cuts^3 sub-cubes and copies number `index`, (i * cuts + j) * cuts + k.
std::vector<std::int16_t> sub_cube(std::span<const std::int16_t> cube, std::int64_t n, std::int64_t cuts,
                                   std::int64_t index);

}  // namespace petaflow::cosmoflow
