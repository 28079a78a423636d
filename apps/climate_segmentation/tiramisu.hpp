// The modified Tiramisu of Kurth et al., SC18 (arXiv:1810.01993): dense blocks down and up with windows of 5 x 5.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "climate_segmentation/blocks.hpp"
#include "nn/layers/dropout.hpp"

namespace petaflow::climate {

struct TiramisuOptions {
  std::int64_t filters = 64;                           // of the first convolution; 48 with four channels on Piz Daint
  std::int64_t growth = 32;                            // filters of the layers of dense blocks
  std::vector<std::int64_t> layers = {2, 2, 2, 4, 5};  // of the dense blocks on the way down
  std::int64_t kernel = 5;                             // of their windows, and of the first one
  double dropout = 0.2;                                // behind all but the deconvolutions, the logits too
  bool batch_norm = false;                             // before each ReLU
  std::int64_t classes = 3;
};

/// Layers of a Tiramisu in the making.
class TiramisuBuilder {
 public:
  TiramisuBuilder(const TiramisuOptions& options, Graph& graph) : options_(options), graph_(graph) {}

  /// Convolution, norm, ReLU, dropout.
  GraphValue add(const std::string& name, std::int64_t filters, const Window& window) {
    graph_.add<Conv>(name, biased(window.of(filters), Initial::Weights::kHeUniform));
    if (options_.batch_norm) graph_.add<BatchNorm>(name + "/norm");
    graph_.add<Relu>(name + "/relu");
    return drop(name);
  }
  GraphValue drop(const std::string& name) {
    if (options_.dropout > 0) graph_.add<Dropout>(name + "/dropout", static_cast<float>(options_.dropout));
    return graph_.value();
  }

  /// Layers that each read what all before them gave.  Returns what they gave; where `joined`, the current value is
  /// then all of that with the input.
  std::vector<GraphValue> add_block(const std::string& name, std::int64_t layers, bool joined) {
    std::vector<GraphValue> given;
    for (std::int64_t i = 1; i <= layers; ++i) {
      const GraphValue x = graph_.value();
      const std::string layer = fmt::format("{}/{}", name, i);
      given.push_back(add(layer, options_.growth, {options_.kernel}));
      if (joined || i < layers) graph_.join<Concat>(layer + "/all", {x, given.back()});
    }
    return given;
  }

 private:
  const TiramisuOptions& options_;
  Graph& graph_;
};

/// Logits of classes per pixel: sample (1, C, 1, H, W) -> (1, classes, 1, H, W).  A dense block, then half the size by
/// 1 x 1 with stride 2, and so on; on the way up what the layers of the last block gave is deconvolved to twice its
/// size and joined with the block of that size.  By default 7,504,835 weights and 4.188 TF per training step on 16 x
/// 768 x 1152.  Deconvolutions are aligned as PyTorch's, a pixel apart from TensorFlow's. Throws a user error where H
/// or W cannot be halved so often.
inline Graph tiramisu(const TiramisuOptions& options, const Shape& sample) {
  const std::size_t levels = options.layers.size();
  const std::int64_t factor = std::int64_t{1} << (levels - 1);
  if (levels < 2) user_error("model.layers must have 2 numbers or more for the tiramisu network, found {}", levels);
  if (sample.h % factor != 0 || sample.w % factor != 0) {
    user_error("the tiramisu network halves maps {} times: height and width must be divisible by {}, found {} x {}",
               levels - 1, factor, sample.h, sample.w);
  }
  Graph graph(sample);
  TiramisuBuilder builder(options, graph);
  builder.add("in", options.filters, {options.kernel});
  std::vector<GraphValue> given, all;  // of the layers of the last block; what each block ends in
  for (std::size_t level = 0; level < levels; ++level) {
    const bool last = level + 1 == levels;
    given = builder.add_block(fmt::format("down{}", level + 1), options.layers[level], !last);
    if (last) break;
    all.push_back(graph.value());
    builder.add(fmt::format("down{}/half", level + 1), graph.shape(all.back()).c, {.stride = 2});
  }
  for (std::size_t level = levels - 1; level-- > 0;) {
    const std::string name = fmt::format("up{}", level + 1);
    graph.join<Concat>(name + "/given", given);
    DeconvOptions deconv = doubling(graph.shape(graph.value()).c);
    deconv.bias = true;
    deconv.initial.weights = Initial::Weights::kHeUniform;
    graph.add<Deconv>(name + "/twice", deconv);
    graph.join<Concat>(name + "/beside", {graph.value(), all[level]});
    given = builder.add_block(name, options.layers[level], level == 0);
  }
  graph.add<Conv>("classes", biased(Window{}.of(options.classes), Initial::Weights::kHeUniform));
  builder.drop("classes");
  return graph;
}

}  // namespace petaflow::climate
