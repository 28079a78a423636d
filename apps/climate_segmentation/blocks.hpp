// What the networks for maps of weather are made of: convolutions in the plane with what stands behind them, and the
// pyramid of dilated windows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/broadcast.hpp"
#include "nn/layers/concat.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/deconv.hpp"
#include "nn/layers/pool.hpp"

namespace petaflow::climate {

/// A square window of odd size, padded so that without a stride the map keeps its size; no bias.
struct Window {
  std::int64_t kernel = 1, stride = 1, dilation = 1;

  ConvOptions of(std::int64_t filters) const {
    ConvOptions options = ConvOptions::same_2d(filters, kernel);
    options.pad = {0, kernel / 2 * dilation, kernel / 2 * dilation};
    options.stride = {1, stride, stride};
    options.dilation = {1, dilation, dilation};
    options.bias = false;
    return options;
  }
};

/// The transposed convolution of 3 x 3 pixels that doubles height and width; no bias.
inline DeconvOptions doubling(std::int64_t filters) {
  DeconvOptions options{Window{3, 2}.of(filters)};
  options.output_padding = {0, 1, 1};
  return options;
}

/// A convolution (or deconvolution) with bias, or without norm behind it.
inline ConvOptions biased(ConvOptions options, Initial::Weights weights = Initial::Weights::kHeNormal) {
  options.bias = true;
  options.initial.weights = weights;
  return options;
}

/// Numbers of filters of a network that is narrower by a factor.
inline std::int64_t narrowed(std::int64_t filters, double factor) {
  return std::max<std::int64_t>(1, std::llround(factor * static_cast<double>(filters)));
}

/// What stands in the place of batch norm where there is none: a factor, "as activations can overflow fp16" (Kurth et
/// al., SC18).  It is the gain of the convolution before or behind it, which costs nothing.
inline constexpr float kInsteadOfNorm = 0.5F;

/// A convolution without bias, batch norm (or the factor instead) and ReLU, named "name", "name/norm" and "name/relu".
template <class L = Conv, class Options>
Graph& add_normed(Graph& graph, const std::string& name, Options options, bool batch_norm,
                  const BatchNormOptions& norm = {}) {
  if (!batch_norm) options.gain *= kInsteadOfNorm;
  graph.add<L>(name, options);
  if (batch_norm) graph.add<BatchNorm>(name + "/norm", norm);
  return graph.add<Relu>(name + "/relu");
}

/// Atrous spatial pyramid pooling behind the current value (Chen et al. 2018, arXiv:1802.02611): a window of 1 x 1,
/// those of 3 x 3 with dilations `rates`, and `image`, side by side, then 1 x 1.
/// @param image  adds the branch of the whole map to the graph, which begins with the map's mean and ends as one pixel
template <class Image>
Graph& add_pyramid(Graph& graph, std::int64_t filters, const std::vector<std::int64_t>& rates, bool batch_norm,
                   const BatchNormOptions& norm, const Image& image) {
  const GraphValue x = graph.value();
  const Extent map = graph.shape(x).extent();
  std::vector<GraphValue> branches = {add_normed(graph, "aspp/point", Window{}.of(filters), batch_norm, norm).value()};
  for (const std::int64_t rate : rates) {
    const Window dilated{.kernel = 3, .dilation = rate};
    branches.push_back(
        add_normed(graph.at(x), fmt::format("aspp/rate{}", rate), dilated.of(filters), batch_norm, norm).value());
  }
  image(graph.at(x).add<GlobalPool>("aspp/mean", PoolKind::kAverage));
  branches.push_back(graph.add<Broadcast>("aspp/map", map).value());
  graph.join<Concat>("aspp/branches", branches);
  return add_normed(graph, "aspp/out", Window{}.of(filters), batch_norm, norm);
}

}  // namespace petaflow::climate
