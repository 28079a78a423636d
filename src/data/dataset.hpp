// What a data set is to the rest of petaflow: samples of one shape, addressed by index.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace petaflow {

struct Sample {
  std::int32_t label = 0;
  float weight = 1;  // of the loss
};

/// Samples of one shape; reading is safe from several threads and allocates nothing in the steady state.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  /// C, D, H, W; 2-D data have D = 1.
  virtual std::array<std::int64_t, 4> sample_dims() const = 0;
  /// Fills pixels (D, H, W, C): channels last, transformed and normalised.  Throws Error naming file and sample.
  virtual Sample read(std::int64_t index, std::span<float> pixels) const = 0;

  /// C D H W, floats of one sample.
  std::int64_t sample_elements() const;
};

/// Largest absolute value of each channel over all samples: by convention what a training set is divided by.
std::vector<float> channel_maxima(const Dataset& data);

/// Reads every sample once, so that unreadable or invalid ones are found; throws at the first.
void check_all(const Dataset& data);

}  // namespace petaflow
