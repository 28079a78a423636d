// The networks of the climate detection: variables on a grid to what each cell of it says of a box, and the variables
// again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "climate/frame.hpp"
#include "kernels/detection_loss.hpp"
#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/add.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/concat.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/deconv.hpp"
#include "nn/layers/periodic_pad.hpp"

namespace petaflow::climate_detection {

struct ModelOptions {
  std::string kind = "sc17";               // of kNetworks
  std::vector<std::int64_t> filters = {};  // of each layer of the encoder; empty: those of the kind
  std::string batch_norm = "pass";         // of the code: over a micro-batch, the "global" batch, or "none"
  bool periodic_longitude = true;          // what leaves the map in the east comes in from the west
};

/// What the kinds of networks differ in.
struct Network {
  std::string_view kind;
  std::vector<std::int64_t> filters;
  std::int64_t neck;        // filters of a 3 x 3 convolution between code and heads; 0: there is none
  float slope;              // of the activations below 0
  bool takes_norm;          // on the code before the heads
  bool takes_periodic_pad;  // in the encoder
};

/// "sc17": the 302.1 MiB of Kurth et al., SC17 (arXiv:1708.05256), section III-C: nine convolutions and five
/// deconvolutions.  The paper prints no list of layers; this one fits the size, and is no finding.
/// "racah": Racah et al. 2017 (arXiv:1612.02095), six layers; their decoder shares the weights of the encoder, this one
/// has its own.  "small": for a laptop, cells of 8 pixels.
inline const std::vector<Network>& networks() {
  static const std::vector<Network> all = {{"sc17", {128, 256, 512, 768, 1024}, 1280, 0, false, false},
                                           {"racah", {128, 256, 512, 768, 1024, 1280}, 0, 0.1F, true, false},
                                           {"small", {32, 64, 128}, 128, 0.1F, true, true}};
  return all;
}

/// Words of model.kind.
inline std::vector<std::string> model_kinds() {
  std::vector<std::string> kinds;
  for (const Network& network : networks()) kinds.emplace_back(network.kind);
  return kinds;
}

/// That of the options, with their filters.
inline Network network_of(const ModelOptions& options) {
  Network network = *std::ranges::find(networks(), options.kind, &Network::kind);
  if (!options.filters.empty()) network.filters = options.filters;
  return network;
}

/// Edge of a cell in pixels: every layer of the encoder halves the map.
inline std::int64_t cell_pixels(const ModelOptions& options) {
  return std::int64_t{1} << network_of(options).filters.size();
}

/// x (N, C, 1, H, W), scaled variables -> outputs
///   0  (N, 6 + kinds, 1, H / cell, W / cell): CellChannel and logits of climate::kBoxKinds
///   1  (N, C, 1, H, W), with a decoder: the error x - x' of what it makes of the code.  Its last layer gives -x', so
///      that adding x is all that is left to do.
/// Encoder: 5 x 5 with stride 2 and activation; decoder: 5 x 5 transposed with stride 2, activation but at its end.
inline Graph model(const ModelOptions& options, bool decoder, const Shape& sample) {
  const Network network = network_of(options);
  const std::size_t levels = network.filters.size();
  const std::int64_t cell = cell_pixels(options);
  if (levels > 16 || sample.h % cell != 0 || sample.w % cell != 0) {
    user_error("the {} layers of model.filters make cells of {} x {} pixels, which do not divide {} x {} pixels",
               levels, cell, cell, sample.h, sample.w);
  }
  Graph graph(sample);
  for (std::size_t i = 0; i < levels; ++i) {
    const std::string name = fmt::format("encoder{}", i + 1);
    ConvOptions half = ConvOptions::same_2d(network.filters[i], 5);
    half.stride = {1, 2, 2};
    if (network.takes_periodic_pad && options.periodic_longitude) {
      graph.add<PeriodicPad>(name + "/periodic", std::exchange(half.pad.w, 0));
    }
    graph.add<Conv>(name, half).add<Relu>(name + "/relu", network.slope);
  }
  const GraphValue code = graph.value();

  if (network.takes_norm && options.batch_norm != "none") {
    BatchNormOptions norm;
    norm.scope = options.batch_norm == "global" ? BatchNormScope::kRanks : BatchNormScope::kMicroBatch;
    graph.add<BatchNorm>("norm", norm);
  }
  if (network.neck > 0) {
    graph.add<Conv>("neck", ConvOptions::same_2d(network.neck, 3)).add<Relu>("neck/relu", network.slope);
  }
  const GraphValue seen = graph.value();
  std::vector<GraphValue> heads;
  const auto add_head = [&](const char* name, std::int64_t channels) {
    ConvOptions head = ConvOptions::same_2d(channels, 3);
    head.initial.scale = 0.2;  // starts undecided
    heads.push_back(graph.at(seen).add<Conv>(name, head).value());
  };
  add_head("head/place", kCellBox);
  add_head("head/box", kCellKinds - kCellBox);
  add_head("head/kind", std::ssize(climate::kBoxKinds));
  graph.join<Concat>("cells", heads).mark_output();
  if (!decoder) return graph;

  graph.at(code);
  for (std::size_t i = levels; i-- > 0;) {
    const std::string name = fmt::format("decoder{}", i + 1);
    DeconvOptions twice{ConvOptions::same_2d(i > 0 ? network.filters[i - 1] : sample.c, 5)};
    twice.stride = {1, 2, 2};
    twice.output_padding = {0, 1, 1};
    graph.add<Deconv>(name, twice);
    if (i > 0) graph.add<Relu>(name + "/relu", network.slope);
  }
  graph.join<Add>("error", {graph.value(), Graph::input()}).mark_output();
  return graph;
}

}  // namespace petaflow::climate_detection
