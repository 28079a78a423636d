// The modified DeepLabv3+ of Kurth et al., SC18 (arXiv:1810.01993): ResNet-50 of version 2 with dilation, pyramid, and
// a decoder of deconvolutions to full resolution that sees the input again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "climate_segmentation/blocks.hpp"
#include "nn/layers/add.hpp"

namespace petaflow::climate {

struct DeepLabOptions {
  double width = 1;                                // factor of all numbers of filters
  std::vector<std::int64_t> units = {3, 4, 6, 3};  // of the four residual blocks
  std::vector<std::int64_t> rates = {12, 24, 36};  // dilations of the pyramid
  bool batch_norm = false;                         // without it every norm is a factor of 0.5, as in the paper's runs
  std::int64_t classes = 3;
};

/// Layers of a DeepLabv3+ in the making.
class DeepLabBuilder {
 public:
  DeepLabBuilder(const DeepLabOptions& options, Graph& graph) : options_(options), graph_(graph) {}

  std::int64_t filters(std::int64_t full) const { return narrowed(full, options_.width); }

  /// Convolution without bias, norm, ReLU.
  GraphValue add(const std::string& name, std::int64_t full, const Window& window, float gain = 1) {
    ConvOptions conv = window.of(filters(full));
    conv.gain = gain;
    return add_normed(graph_, name, conv, options_.batch_norm, kNorm).value();
  }

  /// A residual unit with its norm and ReLU first (He et al. 2016, arXiv:1603.05027); without batch norm there is no
  /// ReLU there either, because it belongs to the norm's call.  Returns what its first convolution gives.
  GraphValue add_unit(const std::string& name, std::int64_t full, const Window& window) {
    const GraphValue x = graph_.value();
    GraphValue pre = x;
    if (options_.batch_norm) pre = graph_.add<BatchNorm>(name + "/norm", kNorm).add<Relu>(name + "/relu").value();
    const float gain = options_.batch_norm ? 1 : kInsteadOfNorm;
    const std::int64_t out = 4 * filters(full);
    const Window point{.stride = window.stride};
    GraphValue around = x;
    if (graph_.shape(x).c != out) {
      ConvOptions conv = biased(point.of(out));
      conv.gain = gain;
      around = graph_.at(pre).add<Conv>(name + "/around", conv).value();
    } else if (window.stride > 1) {  // every other pixel
      const PoolGeometry every{PoolKind::kAverage, {1, 1, 1}, {1, window.stride, window.stride}, {0, 0, 0}};
      around = graph_.at(x).add<Pool>(name + "/around", every).value();
    }
    graph_.at(pre);
    const GraphValue first = add(name + "/conv1", full, {}, gain);
    add(name + "/conv2", full, window);
    graph_.add<Conv>(name + "/conv3", biased(Window{}.of(out)));
    graph_.join<Add>(name + "/add", {graph_.value(), around});
    return first;
  }

  /// A deconvolution to twice the size, or a convolution, with bias and nothing behind it.
  template <class L, class Options>
  GraphValue add_linear(const std::string& name, Options options) {
    options.bias = true;
    options.initial.weights = Initial::Weights::kHeUniform;
    return graph_.add<L>(name, options).value();
  }

  static constexpr BatchNormOptions kNorm{.epsilon = 1e-5F, .momentum = 3e-4};

 private:
  const DeepLabOptions& options_;
  Graph& graph_;
};

/// Logits of classes per pixel: sample (1, C, 1, H, W) -> (1, classes, 1, H, W).  Blocks at 1/4 and, with stride
/// replaced by dilation, 1/8 of the resolution; the pyramid; deconvolutions to 1/4, beside 48 channels of the first
/// block, to 1/2 and 1, beside 128 channels made of the input, none of them with ReLU.  By default 43,669,251 weights
/// without batch norm and 13.02 TF per training step on 16 x 768 x 1152 (14.41 by the paper's counter, which counts
/// zeros that TensorFlow pads dilated maps with).  Pooling and deconvolutions are aligned as PyTorch's, a pixel apart
/// from TensorFlow's.  Throws a user error where H or W cannot be divided by 8.
inline Graph deeplab(const DeepLabOptions& options, const Shape& sample) {
  if (sample.h % 8 != 0 || sample.w % 8 != 0) {
    user_error("the deeplab network needs a height and a width divisible by 8, found {} x {}", sample.h, sample.w);
  }
  if (options.units.size() != 4) {
    user_error("model.units must have 4 numbers for the deeplab network, found {}", options.units.size());
  }
  Graph graph(sample);
  DeepLabBuilder builder(options, graph);
  graph.add<Conv>("conv1", biased(Window{7, 2}.of(builder.filters(64))));
  graph.add<Pool>("pool1", PoolGeometry{PoolKind::kMax, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}});
  GraphValue fine;  // at 1/4 of the resolution
  for (std::size_t block = 0; block < 4; ++block) {
    const std::int64_t dilation = block < 2 ? 1 : std::int64_t{1} << (block - 1);
    for (std::int64_t unit = 1; unit <= options.units[block]; ++unit) {
      const bool halves = block == 0 && unit == options.units[block];
      const Window window{3, halves ? 2 : 1, dilation};
      const GraphValue first =
          builder.add_unit(fmt::format("block{}/{}", block + 1, unit), std::int64_t{64} << block, window);
      if (halves) fine = first;
    }
  }
  add_pyramid(graph, builder.filters(256), options.rates, options.batch_norm, DeepLabBuilder::kNorm,
              [&](Graph&) { builder.add("aspp/image", 256, {}); });
  const DeconvOptions twice = doubling(builder.filters(256));
  const GraphValue coarse = builder.add_linear<Deconv>("decoder/quarter", twice);
  graph.at(fine);
  fine = builder.add("decoder/fine", 48, {});
  graph.join<Concat>("decoder/beside", {coarse, fine});
  builder.add("decoder/conv1", 256, {3});
  builder.add("decoder/conv2", 256, {3});
  builder.add_linear<Deconv>("decoder/half", twice);
  const GraphValue full = builder.add_linear<Deconv>("decoder/full", twice);
  graph.at(Graph::input());
  builder.add_linear<Conv>("skip/conv1", Window{3}.of(builder.filters(64)));
  const GraphValue skip = builder.add_linear<Conv>("skip/conv2", Window{3}.of(builder.filters(128)));
  graph.join<Concat>("decoder/with_input", {full, skip});
  builder.add_linear<Conv>("decoder/conv3", Window{3}.of(builder.filters(256)));
  builder.add_linear<Conv>("decoder/conv4", Window{3}.of(builder.filters(256)));
  graph.add<Conv>("classes", biased(Window{}.of(options.classes)));
  return graph;
}

}  // namespace petaflow::climate
