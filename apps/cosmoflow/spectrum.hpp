// The measurements on a cube: its power spectrum and how its counts are distributed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cosmoflow/mesh.hpp"

namespace petaflow::cosmoflow {

/// Mean over all modes k whose length is within half a fundamental frequency of that of the bin.
struct SpectrumBin {
  double k = 0;            // their mean length
  double power = 0;        // the mean of |delta_k|^2 V
  std::int64_t modes = 0;  // how many, k and -k counted apart: the variance of `power` is 2 power^2 / modes
};

/// Measures power spectra of periodic cubes of n^3 numbers.  Several threads may measure at the same time, each with
/// one thread's work.
class SpectrumMeter {
 public:
  explicit SpectrumMeter(int n);

  /// P(k) = V <|delta_k|^2> of a field (n^3, x slowest) in a box with edges of length `box`, for the bins 1 to n/2 (the
  /// Nyquist frequency) fundamental frequencies 2 pi / box; k and P are in units of the box's.
  std::vector<SpectrumBin> measure(std::span<const float> field, double box) const;

  /// Features of the counts in a cube (n, n, n, channels) for a linear model: of each channel the mean count, and ln P
  /// in each bin of log(1 + count), with voxels as the unit of length.  The cube is taken as periodic, which parts of a
  /// box are not: the leakage is the same for all.  n/2 + 1 numbers per channel, channel after channel.
  std::vector<double> features(std::span<const std::int16_t> counts) const;

 private:
  std::vector<SpectrumBin> measure(MeshField& field, double box) const;

  MeshShape shape_;
  MeshTransform transform_;
};

/// The fractions of voxels with 0, 1, ..., bins - 2 and with bins - 1 or more counts, channel after channel.
std::vector<double> histogram_features(std::span<const std::int16_t> counts, std::int64_t channels, int bins = 16);

}  // namespace petaflow::cosmoflow
