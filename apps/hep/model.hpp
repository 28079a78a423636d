// The network of the HEP application and its linear baseline.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/dense.hpp"
#include "nn/layers/dropout.hpp"
#include "nn/layers/periodic_pad.hpp"
#include "nn/layers/pool.hpp"

namespace petaflow::hep {

struct ModelOptions {
  std::string kind = "cnn";                                       // "linear": one dense layer on the pixels
  std::vector<std::int64_t> filters = {128, 128, 128, 128, 128};  // of each convolution
  double dropout = 0.5;                                           // after each pooling
  std::string global_pool = "average";                            // over the map of the last convolution; or "max"
  std::vector<std::int64_t> hidden = {};                          // outputs of dense layers before the last one
  double head_dropout = 0;                                        // after the global pooling
  bool periodic_width = false;                                    // phi of most files: padded by itself, not by zeros
  double negative_slope = 0;                                      // of the activations; 0: ReLU
};

/// The network of Kurth et al., SC17 (arXiv:1708.05256): 3x3 convolutions with ReLU, 2x2 max pooling and dropout after
/// all but the last, which is averaged over the map; two outputs (background, signal).  By default 594,178 weights on
/// three channels.
inline Graph model(const ModelOptions& options, const Shape& sample) {
  Graph graph(sample);
  const auto slope = static_cast<float>(options.negative_slope);
  if (options.kind == "cnn") {
    if (options.filters.empty()) {
      user_error("model.filters is empty: a network of kind \"cnn\" has at least one convolution, as [32, 32]");
    }
    const std::size_t convolutions = options.filters.size();
    for (std::size_t i = 1; i <= convolutions; ++i) {
      ConvOptions conv = ConvOptions::same_2d(options.filters[i - 1], 3);
      if (options.periodic_width) {
        graph.add<PeriodicPad>(fmt::format("periodic{}", i), std::exchange(conv.pad.w, 0));
      }
      graph.add<Conv>(fmt::format("conv{}", i), conv);
      graph.add<Relu>(fmt::format("relu{}", i), slope);
      if (i == convolutions) break;
      graph.add<Pool>(fmt::format("pool{}", i), Pool::square(PoolKind::kMax, 2));
      graph.add<Dropout>(fmt::format("dropout{}", i), static_cast<float>(options.dropout));
    }
    graph.add<GlobalPool>("global_pool", options.global_pool == "max" ? PoolKind::kMax : PoolKind::kAverage);
    graph.add<Dropout>("head_dropout", static_cast<float>(options.head_dropout));
    for (std::size_t i = 1; i <= options.hidden.size(); ++i) {
      graph.add<Dense>(fmt::format("hidden{}", i), options.hidden[i - 1]);
      graph.add<Relu>(fmt::format("hidden_relu{}", i), slope);
    }
  }
  graph.add<Dense>("fc", 2, Initial{.scale = 0.2});  // starts undecided: a loss of log 2
  return graph;
}

}  // namespace petaflow::hep
