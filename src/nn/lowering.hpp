// From layers to stages: layers append operations, runs of operations that can execute together become stages.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/epilogue.hpp"
#include "nn/graph.hpp"
#include "nn/network_options.hpp"
#include "nn/stage.hpp"

namespace petaflow {

struct ConvOp {
  ConvGeometry geometry;
  std::int64_t out_channels = 1;
};
struct DenseOp {
  std::int64_t outputs = 1;
};
struct BiasOp {};
struct PoolOp {
  PoolGeometry geometry;
};
struct ActivationOp {
  float negative_slope = 0;
};
struct DropoutOp {
  float probability = 0;
};
struct StageOp {
  std::unique_ptr<Stage> stage;  // a layer that fuses with nothing brings its own
};
using Operation = std::variant<ConvOp, DenseOp, BiasOp, PoolOp, ActivationOp, DropoutOp, StageOp>;

/// Collects the operations of the layers in order.
class Lowering {
 public:
  struct Entry {
    Operation operation;
    std::size_t layer = 0;  // index into the graph's nodes
  };

  void append(Operation operation) { entries_.push_back({std::move(operation), layer_}); }
  void begin_layer(std::size_t layer) { layer_ = layer; }
  std::vector<Entry>& entries() { return entries_; }

 private:
  std::vector<Entry> entries_;
  std::size_t layer_ = 0;
};

/// A stage before its memory is known.
struct LoweredStage {
  std::string name;                 // "conv1 + relu + pool + dropout"
  std::vector<std::size_t> layers;  // the nodes fused into it
  Shape input, output;              // with the batch
  DType type = DType::kF32;         // of the output and its gradient
  std::unique_ptr<Stage> stage;
  double forward_flop = 0;  // of the batch
  bool wants_dx = true;     // false: nothing before it has parameters to train
};

/// Lowers a graph.  Parameters are given in the order of the graph's nodes, as names "layer/name".
std::vector<LoweredStage> lower(const Graph& graph, const std::vector<StageParameter>& parameters,
                                const NetworkOptions& options, const Context& context);

}  // namespace petaflow
