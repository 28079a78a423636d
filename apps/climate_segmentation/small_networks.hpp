// Two networks for a laptop: a U-Net, and one that sees a pixel alone, which says what the neighbourhood is worth.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "climate_segmentation/model_options.hpp"
#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/concat.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/deconv.hpp"
#include "nn/layers/periodic_pad.hpp"
#include "nn/layers/pool.hpp"

namespace petaflow::climate_segmentation {

/// Convolution, batch norm where the network has it, ReLU.
inline void add_block(Graph& graph, const ModelOptions& options, const std::string& name, std::int64_t filters,
                      std::int64_t kernel) {
  ConvOptions conv = ConvOptions::same_2d(filters, kernel);
  conv.bias = options.batch_norm == "none";
  if (options.periodic_longitude && kernel > 1) {
    graph.add<PeriodicPad>(name + "/periodic", std::exchange(conv.pad.w, 0));
  }
  graph.add<Conv>(name + "/conv", conv);
  if (options.batch_norm != "none") {
    BatchNormOptions norm;
    norm.scope = options.batch_norm == "global" ? BatchNormScope::kRanks : BatchNormScope::kMicroBatch;
    graph.add<BatchNorm>(name + "/norm", norm);
  }
  graph.add<Relu>(name + "/relu");
}

/// Ronneberger et al., "U-Net", MICCAI 2015, with padded convolutions and batch norm: two 3 x 3 convolutions per level,
/// 2 x 2 max pooling down, 2 x 2 deconvolution up.  By default 436,707 weights on 16 channels.
inline Graph unet(const ModelOptions& options, const Shape& sample, std::int64_t classes) {
  const std::vector<std::int64_t> filters =
      options.filters.empty() ? std::vector<std::int64_t>{16, 32, 64, 112} : options.filters;
  const std::size_t levels = filters.size();
  const std::int64_t coarsest = std::int64_t{1} << (levels - 1);
  if (levels > 16 || sample.h % coarsest != 0 || sample.w % coarsest != 0) {
    user_error(
        "a U-Net with the {} levels of model.filters halves its maps {} times, which {} x {} pixels do not allow",
        levels, levels - 1, sample.h, sample.w);
  }
  Graph graph(sample);
  std::vector<GraphValue> skips;
  for (std::size_t level = 0; level < levels; ++level) {
    const std::string name = fmt::format("down{}", level + 1);
    if (level > 0) graph.add<Pool>(name + "/pool", Pool::square(PoolKind::kMax, 2));
    add_block(graph, options, name + "/block1", filters[level], 3);
    add_block(graph, options, name + "/block2", filters[level], 3);
    skips.push_back(graph.value());
  }
  for (std::size_t level = levels - 1; level-- > 0;) {
    const std::string name = fmt::format("up{}", level + 1);
    DeconvOptions twice;
    twice.filters = filters[level];
    twice.kernel = twice.stride = {1, 2, 2};
    graph.add<Deconv>(name + "/deconv", twice);
    graph.join<Concat>(name + "/concat", {graph.value(), skips[level]});
    add_block(graph, options, name + "/block1", filters[level], 3);
    add_block(graph, options, name + "/block2", filters[level], 3);
  }
  graph.add<Conv>("map", ConvOptions::same_2d(classes, 1));
  return graph;
}

/// 1 x 1 convolutions alone: what a pixel's own variables tell of its class.  By default 5,443 weights on 16 channels.
inline Graph pixel_network(const ModelOptions& options, const Shape& sample, std::int64_t classes) {
  const std::vector<std::int64_t> filters =
      options.filters.empty() ? std::vector<std::int64_t>{64, 64} : options.filters;
  Graph graph(sample);
  for (std::size_t i = 0; i < filters.size(); ++i) {
    add_block(graph, options, fmt::format("layer{}", i + 1), filters[i], 1);
  }
  graph.add<Conv>("map", ConvOptions::same_2d(classes, 1));
  return graph;
}

}  // namespace petaflow::climate_segmentation
