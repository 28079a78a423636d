// DeepCAM of MLPerf HPC: DeepLabv3+ with the modified aligned Xception and four deconvolutions.  Structure: the
// reference implementation in PyTorch (mlcommons/hpc, deepcam); Chen et al. 2018, arXiv:1802.02611.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "climate_segmentation/blocks.hpp"
#include "nn/layers/add.hpp"

namespace petaflow::climate {

struct DeepcamOptions {
  double width = 1;                               // factor of all numbers of filters
  std::int64_t middle_blocks = 16;                // of Xception's middle flow
  std::vector<std::int64_t> rates = {6, 12, 18};  // dilations of the pyramid
  std::int64_t classes = 3;
};

/// Layers of a DeepCAM in the making.
class DeepcamBuilder {
 public:
  DeepcamBuilder(const DeepcamOptions& options, Graph& graph) : options_(options), graph_(graph) {}

  std::int64_t filters(std::int64_t full) const { return narrowed(full, options_.width); }

  /// Convolution without bias, batch norm, ReLU.
  GraphValue add(const std::string& name, std::int64_t full, const Window& window) {
    return add_normed(graph_, name, window.of(filters(full)), true).value();
  }

  /// One window of 3 x 3 per channel, and 1 x 1 over all; nothing between them.
  void add_separable(const std::string& name, std::int64_t out, const Window& window = {3}) {
    const std::int64_t channels = graph_.shape(graph_.value()).c;
    ConvOptions depthwise = window.of(channels);
    depthwise.groups = channels;
    graph_.add<Conv>(name + "/depthwise", depthwise).add<Conv>(name + "/point", Window{}.of(out));
  }

  struct Block {
    std::int64_t filters;
    int convolutions = 2;         // separable, each with batch norm
    std::int64_t stride = 1;      // of one more without norm
    bool grows_last = false;      // the last convolution has the filters, those before it the channels of the input
    bool ends_separable = false;  // one more without norm where there is no stride
    bool relu = true;             // of the sum
  };

  /// Separable convolutions beside a way around: the value itself, or 1 x 1 and batch norm.
  void add_block(const std::string& name, const Block& block) {
    const GraphValue x = graph_.value();
    const std::int64_t in = graph_.shape(x).c, out = filters(block.filters);
    for (int i = 1; i <= block.convolutions; ++i) {
      const bool last = i == block.convolutions;
      const std::string layer = fmt::format("{}/{}", name, i);
      add_separable(layer, block.grows_last && !last ? in : out);
      graph_.add<BatchNorm>(layer + "/norm");
      if (!last) graph_.add<Relu>(layer + "/relu");
    }
    if (block.stride > 1 || block.ends_separable) add_separable(name + "/end", out, {3, block.stride});
    const GraphValue y = graph_.value();
    GraphValue around = x;
    if (in != out || block.stride > 1) {
      graph_.at(x).add<Conv>(name + "/around", Window{1, block.stride}.of(out));
      around = graph_.add<BatchNorm>(name + "/around/norm").value();
    }
    graph_.join<Add>(name + "/add", {y, around});
    if (block.relu) graph_.add<Relu>(name + "/relu");
  }

 private:
  const DeepcamOptions& options_;
  Graph& graph_;
};

/// Logits of classes per pixel: sample (1, C, 1, H, W) -> (1, classes, 1, H, W).  Down to 1/16 of the resolution, the
/// pyramid, deconvolutions to 1/4, beside 48 channels made of the first block, and to 1.  By default 56,454,720 weights
/// on 16 channels, 1.966 TF per training step on 16 x 768 x 1152.  The first block ends with a ReLU for the decoder,
/// too, which the reference applies in place.  All weights start by He's normal distribution. Throws a user error where
/// H or W cannot be divided by 16.
inline Graph deepcam(const DeepcamOptions& options, const Shape& sample) {
  if (sample.h % 16 != 0 || sample.w % 16 != 0) {
    user_error("the deepcam network needs a height and a width divisible by 16, found {} x {}", sample.h, sample.w);
  }
  Graph graph(sample);
  DeepcamBuilder builder(options, graph);
  builder.add("entry/conv1", 32, {3, 2});
  builder.add("entry/conv2", 64, {3});
  builder.add_block("entry/block1", {.filters = 128, .stride = 2});
  GraphValue fine = graph.value();  // at 1/4 of the resolution
  builder.add_block("entry/block2", {.filters = 256, .stride = 2});
  builder.add_block("entry/block3", {.filters = 728, .stride = 2});
  for (std::int64_t i = 1; i <= options.middle_blocks; ++i)
    builder.add_block(fmt::format("middle/block{}", i), {.filters = 728, .convolutions = 3});
  builder.add_block("exit/block", {.filters = 1024, .grows_last = true, .ends_separable = true, .relu = false});
  int conv = 0;
  for (const std::int64_t out : {1536, 1536, 2048}) {
    const std::string name = fmt::format("exit/conv{}", ++conv);
    builder.add_separable(name, builder.filters(out), {.kernel = 3, .dilation = 2});
    graph.add<BatchNorm>(name + "/norm").add<Relu>(name + "/relu");
  }
  const std::int64_t width = builder.filters(256);
  add_pyramid(graph, width, options.rates, true, {}, [&](Graph&) {
    ConvOptions affine = biased(Window{}.of(width), Initial::Weights::kOnes);
    affine.groups = width;
    graph.add<Conv>("aspp/image", Window{}.of(width)).add<Conv>("aspp/affine", affine).add<Relu>("aspp/affine/relu");
  });
  const auto twice = [&](const std::string& name) {
    return add_normed<Deconv>(graph, name, doubling(width), true).value();
  };
  twice("decoder/eighth");
  const GraphValue coarse = twice("decoder/quarter");
  graph.at(fine);
  fine = builder.add("decoder/fine", 48, {});
  graph.join<Concat>("decoder/beside", {coarse, fine});
  builder.add("decoder/conv1", 256, {3});
  builder.add("decoder/conv2", 256, {3});
  graph.add<Conv>("decoder/point", biased(Window{}.of(width)));
  twice("decoder/half");
  graph.add<Deconv>("classes", doubling(options.classes));
  return graph;
}

}  // namespace petaflow::climate
