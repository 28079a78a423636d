// Floating-point operations as Kurth et al., SC18 (arXiv:1810.01993) counted them, beside which their rates stand.
#pragma once

#include <variant>

#include "nn/graph.hpp"
#include "nn/lowering.hpp"

namespace petaflow::climate {

/// Operations of a training step per sample by SC18's counter, which walked TensorFlow's graph: there a dilated
/// convolution runs on a copy of its input that is padded by the dilation on each side and then to a multiple of it
/// ("space to batch"), and the counter took all pixels of that copy.  True for windows of three pixels and inputs that
/// keep their size; three times forward, as there.
inline double counted_step_flop(const Graph& graph) {
  double flop = 0;
  for (const Graph::Node& node : graph.nodes()) {
    double share = 1;
    Lowering lowering;
    node.layer->lower(lowering);
    for (const Operation& operation : lowering.operations()) {
      const auto* conv = std::get_if<ConvOp>(&operation);
      if (conv == nullptr || conv->geometry.dilation == Extent{1, 1, 1}) continue;
      const auto counted = [](std::int64_t pixels, std::int64_t dilation, std::int64_t pad) {
        const std::int64_t padded = pixels + 2 * pad;
        return static_cast<double>((padded + dilation - 1) / dilation * dilation) / static_cast<double>(pixels);
      };
      const ConvGeometry& g = conv->geometry;
      share *= counted(node.input.h, g.dilation.h, g.pad_begin.h) * counted(node.input.w, g.dilation.w, g.pad_begin.w);
    }
    flop += 3 * share * node.layer->cost(node.input).flop;
  }
  return flop;
}

}  // namespace petaflow::climate
