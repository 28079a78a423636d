// A universe of the CosmoFlow data set: dark matter particles in a box, counted in voxels at four redshifts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cosmoflow/cosmology.hpp"
#include "cosmoflow/lagrangian_field.hpp"

namespace petaflow::cosmoflow {

/// Of the channels of a cube (Mathuriya et al., SC18; the MLPerf HPC data set), latest first.
inline constexpr std::array<double, 4> kRedshifts = {0, 0.5, 1.5, 3};

/// The parameters that networks learn, in the order of the labels: uniform in +-10 % around their centres.
struct ParameterRange {
  const char* name;
  double centre;
};
inline constexpr std::array<ParameterRange, 4> kParameters = {
    {{"Omega_m", 0.3}, {"sigma_8", 0.8}, {"n_s", 0.96}, {"H_0", 70}}};
inline constexpr double kHalfRange = 0.1;  // of the centre

using Parameters = std::array<double, kParameters.size()>;  // physical: Omega_m, sigma_8, n_s, H_0 in km/s/Mpc

/// y in [-1, 1]: (p - centre) / (0.1 centre).
Parameters to_labels(const Parameters& physical);

/// The parameters of a universe, a function of seed and universe alone.
Parameters draw_parameters(std::uint64_t seed, std::int64_t universe);

struct UniverseOptions {
  std::int64_t particles = 128;  // along an edge, as many as voxels; even
  double box = 256;              // length of an edge, Mpc/h
};

/// Throws a user error naming the key below `generate`.
void check(const UniverseOptions& options);

/// Independent standard normal numbers, n^3, x slowest; a function of seed, universe and place alone.
void white_noise(std::uint64_t seed, std::int64_t universe, std::span<float> noise);

/// Makes one universe after the other with the memory (7 fields) and the plans of the first; all threads work.
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
