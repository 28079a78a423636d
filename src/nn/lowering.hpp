// From layers to stages: layers append operations, runs of operations that can execute together become stages.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/epilogue.hpp"
#include "nn/batch_norm_stage.hpp"
#include "nn/conv_role.hpp"
#include "nn/graph.hpp"
#include "nn/network_options.hpp"
#include "nn/stage.hpp"

namespace petaflow {

class ConvTuning;

struct ConvOp {
  ConvGeometry geometry;  // of the convolution, which may be transposed
  std::int64_t out_channels = 1;
  ConvRole role = ConvRole::kConvolution;
  float gain = 1;  // factor of its sums
};
struct DenseOp {
  std::int64_t outputs = 1;
};
struct BatchNormOp {
  BatchNormOptions options;
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
struct ConcatOp {};  // of any number of values
/// Sum of two values: joins the stage that gives one of them, where its epilogue can take the other.
struct AddOp {
  std::unique_ptr<Stage> otherwise;
};
struct StageOp {
  std::unique_ptr<Stage> stage;  // a layer that fuses with nothing brings its own
};
using Operation =
    std::variant<ConvOp, DenseOp, BatchNormOp, BiasOp, PoolOp, ActivationOp, DropoutOp, ConcatOp, AddOp, StageOp>;

/// Collects the operations of a layer in order.
class Lowering {
 public:
  void append(Operation operation) { operations_.push_back(std::move(operation)); }
  std::vector<Operation>& operations() { return operations_; }

 private:
  std::vector<Operation> operations_;
};

/// A value between stages.  It lies in memory of its own, or in some channels of a concatenation.
struct LoweredValue {
  std::string name;             // of the layer that it is from
  Shape shape;                  // with the batch
  DType type = DType::kF32;     // its gradient's, too
  bool wants_gradient = false;  // something before it has parameters to train
  std::size_t root = 0;         // the value that the memory belongs to: itself, or the widest concatenation
  std::int64_t channel = 0;     // of the root, where it begins
};

/// A stage before its memory is known.
struct LoweredStage {
  std::string name;                          // "conv1 + relu + max pool + dropout"
  std::vector<std::size_t> layers;           // the nodes fused into it
  std::vector<std::size_t> inputs, outputs;  // values
  std::unique_ptr<Stage> stage;
  double forward_flop = 0;  // of the batch
};

struct LoweredNetwork {
  std::vector<LoweredValue> values;  // the first is the input
  std::vector<LoweredStage> stages;  // each behind those whose values it takes
  std::vector<std::size_t> outputs;  // of the network: values in f32 that lie in no concatenation
};

/// Lowers a graph.  Throws a user error where a value is neither used nor an output.
/// @param parameters  for each node those of its layer, in the order of Layer::parameters()
/// @param tuning      what convolutions are tuned with; needed where the options ask for that
LoweredNetwork lower(const Graph& graph, const std::vector<std::vector<StageParameter>>& parameters,
                     const NetworkOptions& options, const Context& context, ConvTuning* tuning);

/// A convolution as the kernels of its stage would get it, whole.
struct LoweredConvolution {
  std::string name;  // of the stage
  ConvDesc conv;
  ConvRole role = ConvRole::kConvolution;
  bool wants_dx = false;
};

/// The convolutions of the stages that lower() would make; asks nothing of the machine.
std::vector<LoweredConvolution> lowered_convolutions(const Graph& graph,
                                                     const std::vector<std::vector<StageParameter>>& parameters,
                                                     const NetworkOptions& options);

}  // namespace petaflow
