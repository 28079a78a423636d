// The network of the shapes application: a small U with two outputs, the map and the kind.
#pragma once

#include <cstdint>

#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/concat.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/deconv.hpp"
#include "nn/layers/dense.hpp"
#include "nn/layers/pool.hpp"
#include "shapes/data.hpp"

namespace petaflow::shapes {

/// Output 0: (kMapClasses, edge, edge) logits of the pixels; output 1: (kinds) logits of the shape.  Skip connection of
/// Ronneberger et al., "U-Net", MICCAI 2015.
/// @param filters  of the first convolution; the second, at half the resolution, has twice as many
inline Graph model(const Shape& sample, std::int64_t filters) {
  Graph graph(sample);
  graph.add<Conv>("down/conv1", ConvOptions::same_2d(filters, 3)).add<Relu>("down/relu1");
  const GraphValue skip = graph.value();
  graph.add<Pool>("down/pool", Pool::square(PoolKind::kMax, 2));
  graph.add<Conv>("down/conv2", ConvOptions::same_2d(2 * filters, 3)).add<Relu>("down/relu2");
  const GraphValue bottom = graph.value();

  DeconvOptions twice;
  twice.filters = filters;
  twice.kernel = twice.stride = {1, 2, 2};
  graph.add<Deconv>("up/deconv", twice);
  graph.join<Concat>("up/concat", {graph.value(), skip});
  graph.add<Conv>("up/conv", ConvOptions::same_2d(filters, 3)).add<Relu>("up/relu");
  graph.add<Conv>("map", ConvOptions::same_2d(kMapClasses, 1)).mark_output();

  graph.at(bottom).add<GlobalPool>("kind/pool", PoolKind::kAverage);
  graph.add<Dense>("kind/fc", std::ssize(kKinds)).mark_output();
  return graph;
}

}  // namespace petaflow::shapes
