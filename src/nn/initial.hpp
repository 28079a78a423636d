// First values of weights and biases.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "nn/layer.hpp"

namespace petaflow {

/// How a convolution or a dense layer starts.
struct Initial {
  enum class Weights {
    kHeNormal,       // normal, variance 2 / fan_in: He et al. 2015
    kHeUniform,      // uniform, of the same variance
    kGlorotUniform,  // uniform, variance 2 / (fan_in + fan_out): Glorot & Bengio 2010, "Xavier"
    kOnes            // all `scale`, without weight decay: factors of channels, a depthwise convolution of 1 x 1
  };
  Weights weights = Weights::kHeNormal;
  double scale = 1;  // of the weights
  double bias = 0;   // of every output

  /// @param dims     (outputs, inputs per output, window...)
  /// @param fan_in   terms of the sum of an output
  /// @param fan_out  sums that an input goes into
  ParamSpec weight(std::vector<std::int64_t> dims, std::int64_t fan_in, std::int64_t fan_out) const {
    if (weights == Weights::kOnes)
      return {"weight", std::move(dims), 0, false, scale, Distribution::kNormal, 0, ParamRole::kWeight};
    const bool glorot = weights == Weights::kGlorotUniform;
    const std::int64_t fans = glorot ? fan_in + fan_out : fan_in;
    return {"weight",
            std::move(dims),
            scale * std::sqrt(2.0 / static_cast<double>(fans)),
            true,
            0,
            weights == Weights::kHeNormal ? Distribution::kNormal : Distribution::kUniform,
            0,
            ParamRole::kWeight};
  }
  ParamSpec biases(std::int64_t outputs) const {
    return {"bias", {outputs}, 0, false, bias, Distribution::kNormal, 0, ParamRole::kBias};
  }
};

}  // namespace petaflow
