// How channels are scaled for the network: by mean and standard deviation or by minimum and maximum of the training
// set.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "climate/statistics.hpp"

namespace petaflow::climate {

enum class Normalise : std::uint8_t {
  kNone,    // numbers as they are
  kMinMax,  // to [0, 1], as MLPerf HPC DeepCAM does
  kZScore   // to mean 0 and standard deviation 1
};

/// x' = (x - offset) * factor, for each channel.
struct ChannelScaling {
  std::vector<double> offsets, factors;
};

/// The scaling of some variables.  Where one has no deviation (FieldStatistics::has_deviation), kZScore maps it from
/// its minimum and maximum to [-1, 1]; deviation_warnings() says so.  What is the same everywhere becomes 0.  Throws a
/// user error where there are no statistics of a variable; `source` names where they are from.
ChannelScaling make_scaling(Normalise normalise, const Statistics& statistics, std::span<const int> fields,
                            const std::string& source);

}  // namespace petaflow::climate
