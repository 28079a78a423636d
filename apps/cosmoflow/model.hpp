// The networks of the CosmoFlow application: cosmological parameters from cubes of the dark-matter distribution.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/dense.hpp"
#include "nn/layers/dropout.hpp"
#include "nn/layers/pool.hpp"
#include "nn/layers/scaled_tanh.hpp"
#include "nn/layers/space_to_depth.hpp"

namespace petaflow::cosmoflow {

struct ModelOptions {
  std::string kind = "sc18";               // "sc18", "mlperf", "quick"
  std::vector<std::int64_t> filters = {};  // of each convolution; empty: those of the kind
  std::vector<std::int64_t> hidden = {};   // outputs of dense layers before the last one; empty: those of the kind
  double dropout = 0.5;                    // probability that an input of a dense layer is dropped
  std::string batch_norm = {};  // quick: statistics over a micro-batch ("pass", default), the "global" batch, or "none"
};

/// The widths asked for, or the kind's own.  Throws where a network with a fixed number of layers is given another.
inline std::vector<std::int64_t> widths(const ModelOptions& options, const char* key,
                                        const std::vector<std::int64_t>& asked, const std::vector<std::int64_t>& own) {
  if (asked.empty()) return own;
  if (options.kind != "quick" && asked.size() != own.size()) {
    user_error("{} must have {} numbers for the {} network, found {}", key, own.size(), options.kind, asked.size());
  }
  return asked;
}

/// Throws where an edge of the cube is shorter than `smallest`.
inline void require_edges(const ModelOptions& options, const Shape& sample, std::int64_t smallest, const char* reason) {
  if (std::min({sample.d, sample.h, sample.w}) >= smallest) return;
  user_error("the {} network needs cubes with edges of at least {}, found {}: {}", options.kind, smallest,
             to_string(sample.extent()), reason);
}

/// Mathuriya et al., SC18 (arXiv:1808.04728): seven convolutions without padding, three of them followed by
/// average pooling, and three dense layers with dropout before each.  By default 7,041,443 weights for three outputs
/// on 1 x 128^3; fewer on smaller cubes, of which the last convolution leaves less than 2^3.
inline void add_sc18(Graph& graph, const ModelOptions& options, std::int64_t outputs) {
  struct Window {
    std::int64_t kernel, stride;
    bool pool;
  };
  const Window windows[] = {{3, 1, true},  {4, 1, true},  {4, 1, true}, {3, 2, false},
                            {3, 1, false}, {2, 1, false}, {2, 1, false}};
  const float slope = 0.01F;
  const Initial initial{Initial::Weights::kGlorotUniform, 1, 0.1};
  require_edges(options, graph.sample(), 108,
                "its convolutions without padding leave nothing of smaller ones; model.kind = \"mlperf\" pads");
  const auto filters = widths(options, "model.filters", options.filters, {16, 32, 64, 128, 256, 256, 256});
  const auto hidden = widths(options, "model.hidden", options.hidden, {2048, 256});
  for (std::size_t i = 1; i <= filters.size(); ++i) {
    const Window& window = windows[i - 1];
    ConvOptions conv = ConvOptions::valid_3d(filters[i - 1], window.kernel, window.stride);
    conv.initial = initial;
    graph.add<Conv>(fmt::format("conv{}", i), conv).add<Relu>(fmt::format("relu{}", i), slope);
    if (window.pool) graph.add<Pool>(fmt::format("pool{}", i), Pool::cube(PoolKind::kAverage, 2));
  }
  for (std::size_t i = 1; i <= hidden.size(); ++i) {
    graph.add<Dropout>(fmt::format("dropout{}", i), static_cast<float>(options.dropout));
    graph.add<Dense>(fmt::format("hidden{}", i), hidden[i - 1], initial);
    graph.add<Relu>(fmt::format("hidden_relu{}", i), slope);
  }
  graph.add<Dropout>(fmt::format("dropout{}", hidden.size() + 1), static_cast<float>(options.dropout));
  graph.add<Dense>("fc", outputs, initial);
}

/// The model of the MLPerf HPC benchmark CosmoFlow (mlcommons/hpc): five padded 3^3 convolutions,
/// each followed by max pooling, and three dense layers with dropout between them; the outputs lie in [-1.2, 1.2].  By
/// default 8,907,556 weights for four outputs on 4 x 128^3; Keras' first weights.
inline void add_mlperf(Graph& graph, const ModelOptions& options, std::int64_t outputs) {
  const float slope = 0.3F;
  const Initial initial{Initial::Weights::kGlorotUniform, 1, 0};
  require_edges(options, graph.sample(), 32, "its five poolings halve them");
  const auto filters = widths(options, "model.filters", options.filters, {32, 64, 128, 256, 512});
  const auto hidden = widths(options, "model.hidden", options.hidden, {128, 64});
  for (std::size_t i = 1; i <= filters.size(); ++i) {
    ConvOptions conv = ConvOptions::same_3d(filters[i - 1], 3);
    conv.initial = initial;
    graph.add<Conv>(fmt::format("conv{}", i), conv).add<Relu>(fmt::format("relu{}", i), slope);
    graph.add<Pool>(fmt::format("pool{}", i), Pool::cube(PoolKind::kMax, 2));
  }
  for (std::size_t i = 1; i <= hidden.size(); ++i) {
    graph.add<Dense>(fmt::format("hidden{}", i), hidden[i - 1], initial);
    graph.add<Relu>(fmt::format("hidden_relu{}", i), slope);
    graph.add<Dropout>(fmt::format("dropout{}", i), static_cast<float>(options.dropout));
  }
  graph.add<Dense>("fc", outputs, initial);
  graph.add<ScaledTanh>("tanh", 1.2F);
}

/// A network that learns in minutes: blocks of 2^3 pixels as channels, 3^3 convolutions with batch norm and max pooling
/// between them, the average over the map of the last one.
inline void add_quick(Graph& graph, const ModelOptions& options, std::int64_t outputs) {
  const float slope = 0.1F;
  const auto filters = widths(options, "model.filters", options.filters, {16, 32, 64, 128});
  const auto hidden = widths(options, "model.hidden", options.hidden, {});
  BatchNormOptions norm;
  norm.scope = options.batch_norm == "global" ? BatchNormScope::kRanks : BatchNormScope::kMicroBatch;
  const bool has_norm = options.batch_norm != "none";
  graph.add<SpaceToDepth>("blocks", 2);
  // Counts are all positive: without their mean, small steps of many weights do not move all that follows.
  BatchNormOptions standardise = norm;
  standardise.affine = false;
  if (has_norm) graph.add<BatchNorm>("norm0", standardise);
  for (std::size_t i = 1; i <= filters.size(); ++i) {
    ConvOptions conv = ConvOptions::same_3d(filters[i - 1], 3);
    conv.bias = !has_norm;
    graph.add<Conv>(fmt::format("conv{}", i), conv);
    if (has_norm) graph.add<BatchNorm>(fmt::format("norm{}", i), norm);
    graph.add<Relu>(fmt::format("relu{}", i), slope);
    if (i < filters.size()) graph.add<Pool>(fmt::format("pool{}", i), Pool::cube(PoolKind::kMax, 2));
  }
  graph.add<GlobalPool>("global_pool", PoolKind::kAverage);
  for (std::size_t i = 1; i <= hidden.size(); ++i) {
    graph.add<Dropout>(fmt::format("dropout{}", i), static_cast<float>(options.dropout));
    graph.add<Dense>(fmt::format("hidden{}", i), hidden[i - 1]);
    graph.add<Relu>(fmt::format("hidden_relu{}", i), slope);
  }
  graph.add<Dropout>(fmt::format("dropout{}", hidden.size() + 1), static_cast<float>(options.dropout));
  graph.add<Dense>("fc", outputs, Initial{.scale = 0.2});  // starts near the mean of the targets
}

/// Appends the network `options.kind` with so many outputs, one per cosmological parameter.  Throws a user error where
/// the cube is too small, the widths do not fit, or it has no batch norm and is to have one.
inline void add_network(Graph& graph, const ModelOptions& options, std::int64_t outputs) {
  if (options.kind != "quick" && !options.batch_norm.empty() && options.batch_norm != "none") {
    user_error("model.batch_norm is \"{}\", but the {} network has no batch norm; leave it \"\"", options.batch_norm,
               options.kind);
  }
  if (options.kind == "sc18") add_sc18(graph, options, outputs);
  if (options.kind == "mlperf") add_mlperf(graph, options, outputs);
  if (options.kind == "quick") add_quick(graph, options, outputs);
}

}  // namespace petaflow::cosmoflow
