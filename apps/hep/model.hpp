// The network of the HEP application and its linear baseline.
#pragma once

#include <cstdint>
#include <string>

#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/dense.hpp"
#include "nn/layers/dropout.hpp"
#include "nn/layers/pool.hpp"

namespace petaflow::hep {

struct ModelOptions {
  std::string kind = "cnn";  // "linear": one dense layer on the pixels
  std::int64_t filters = 128;
  std::int64_t blocks = 4;    // of convolution and pooling
  double dropout = 0.5;       // after each block
  double negative_slope = 0;  // of the activation; 0: ReLU
};

/// Kurth et al., SC17 (arXiv:1708.05256), section III.A: `blocks` times 3x3 convolution, ReLU, 2x2 max pooling,
/// dropout; a last convolution with ReLU, averaged over the map; two outputs (background, signal).  594,178 weights on
/// three channels.
inline Graph model(const ModelOptions& options, const Shape& sample) {
  Graph graph(sample);
  if (options.kind == "cnn") {
    const ConvOptions conv = ConvOptions::same_2d(options.filters, 3);
    for (std::int64_t block = 1; block <= options.blocks; ++block) {
      graph.add<Conv>(fmt::format("conv{}", block), conv);
      graph.add<Relu>(fmt::format("relu{}", block), static_cast<float>(options.negative_slope));
      graph.add<Pool>(fmt::format("pool{}", block), Pool::square(PoolKind::kMax, 2));
      graph.add<Dropout>(fmt::format("dropout{}", block), static_cast<float>(options.dropout));
    }
    const std::int64_t last = options.blocks + 1;
    graph.add<Conv>(fmt::format("conv{}", last), conv);
    graph.add<Relu>(fmt::format("relu{}", last), static_cast<float>(options.negative_slope));
    graph.add<GlobalPool>(fmt::format("pool{}", last), PoolKind::kAverage);
  }
  graph.add<Dense>("fc", 2);
  return graph;
}

}  // namespace petaflow::hep
