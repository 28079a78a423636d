// A network that runs: the graph lowered to stages, its memory planned, its parameters flat.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/context.hpp"
#include "base/tensor.hpp"
#include "nn/graph.hpp"
#include "nn/network_options.hpp"
#include "nn/stage.hpp"
#include "nn/step_memory.hpp"
#include "nn/timeline.hpp"

namespace petaflow {

class ConvTuning;
struct LoweredConvolution;

/// A parameter in the flat arrays, in the order of the graph.
struct Parameter {
  std::string name;  // "conv1/weight"
  ParamSpec spec;
  std::size_t layer = 0;    // index of the graph's node
  std::int64_t offset = 0;  // first element in weights() and in a flat gradient
};

/// Of all layers, without making a network of them.
std::vector<Parameter> list_parameters(const Graph& graph);

/// The convolutions of the network that would be made, in the order of its stages; asks nothing of the machine.
std::vector<LoweredConvolution> list_convolutions(const Graph& graph, const NetworkOptions& options);

/// A stage and its cost so far, for tables.
struct StageReport {
  std::string name;                                      // "conv1 + bias + max pool + relu + dropout"
  std::vector<std::string> layers;                       // those fused into it
  Shape input, output;                                   // with the batch
  std::string forward, backward_data, backward_weights;  // implementation per pass, "-" where there is none
  std::vector<std::string> refusals;                     // why faster implementations were passed over
  double forward_flop = 0, backward_flop = 0;            // of one batch
  std::size_t saved_bytes = 0, scratch_bytes = 0;
  StageKind kind = StageKind::kPointwise;
  bool again = false;  // its forward pass is made a second time for backward
  // Wall time of training passes, added up: forward, backward, and of backward the part for the parameters' gradients
  // (convolutions only).
  double forward_s = 0, backward_s = 0, backward_weights_s = 0;
};

/// A block of the memory plan, for tables.
struct BlockReport {
  std::string name;  // "conv1 output"
  std::size_t size_bytes = 0, offset = 0;
  std::string alive;        // "always", "forward conv1 to backward conv2": the stages' first layers
  int first = 0, last = 0;  // moments, as in MemoryBlock
};

class Network {
 public:
  /// @param tuning  what convolutions are tuned with; needed where the options ask for that, and only here
  Network(const Graph& graph, const NetworkOptions& options, const Context& context, ConvTuning* tuning = nullptr);
  ~Network();

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::int64_t parameter_elements() const { return parameter_elements_; }  // of the flat arrays
  std::int64_t trained_elements() const;                                   // without running statistics
  std::int64_t batch() const { return options_.batch; }

  /// Flat f32 master weights in MemorySpace; call refresh() after writing them, and before the first pass.
  float* weights() const { return memory_->weights(); }
  /// Draws all weights from (seed, parameter index, element) and refreshes.
  void initialise(const Context& context, std::uint64_t seed);
  /// Renews the copies that the kernels keep of the weights, and makes their tables.
  void refresh(const Context& context);

  /// (batch, C, D, H, W), dense, to be filled before forward().
  Tensor input() const { return memory_->value(0); }
  std::size_t outputs() const { return outputs_.size(); }
  /// Dense, f32, valid after forward(), in the order of Graph::outputs().
  Tensor output(std::size_t index = 0) const { return memory_->value(outputs_[index]); }
  /// Gradient of output(), of its layout, to be filled before each backward(), which adds to it where others use it.
  Tensor output_gradient(std::size_t index = 0) const { return memory_->gradient(outputs_[index]); }

  void forward(const Context& context);
  /// With NetworkOptions::plans_gradient: where backward() may write to, flat; of a step up to the next forward().
  /// Otherwise null.
  float* gradient() const { return memory_->flat_gradient(); }
  /// Writes (=) the flat gradient of all parameters to `gradient`, layer by layer from the last to the first.
  /// `ready(begin, end)` is called when the elements [begin, end) are final.
  void backward(const Context& context, float* gradient,
                const std::function<void(std::int64_t, std::int64_t)>& ready = {});
  /// The step ends, whichever of its passes ran: all of gradient() may be read; what backward() did not write is of no
  /// meaning.
  void end_step() { memory_->arena().enter(moments() - 1); }

  /// A sum over ranks (Context::sum_over_ranks).
  struct RankSum {
    std::int64_t values = 0;
    std::int64_t final_from = 0;  // the elements of the gradient from here on have been said to be ready before
  };
  /// Sums over ranks of one micro-batch in training, forward and backward, in their order.
  std::vector<RankSum> rank_sums() const;

  std::vector<StageReport> report() const;
  void reset_times();
  double forward_flop() const;   // of one batch: 2 per multiply-add, convolutions and dense
  double backward_flop() const;  // likewise, without the gradient of the input
  double again_flop() const;     // likewise, of forward passes made again (NetworkOptions::recompute)
  std::size_t arena_bytes() const { return memory_->arena().size_bytes(); }
  std::size_t arena_huge_page_bytes() const { return memory_->arena().huge_page_bytes(); }
  /// Passes of stages in a step, or in a prediction.
  int moments() const { return static_cast<int>(timeline_.actions.size()); }
  /// The largest first; those without bytes are left out.
  std::vector<BlockReport> blocks() const;

 private:
  void list_reports(const Graph& graph, const LoweredNetwork& lowered);
  /// The flat gradient, by the stages that write it.
  std::vector<GradientPart> list_gradients(const Graph& graph, const LoweredNetwork& lowered) const;
  void list_final_gradients(const std::vector<GradientPart>& gradients);
  /// Makes the arena and the stage ready for an action of the timeline.
  Stage& enter(std::size_t moment);

  NetworkOptions options_;
  std::vector<Parameter> parameters_;
  std::int64_t parameter_elements_ = 0;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<StageReport> reports_;
  Timeline timeline_;
  BackwardPlan plan_;
  std::unique_ptr<StepMemory> memory_;
  std::vector<std::size_t> outputs_;  // values
  // Operands of each stage in the first forward pass and in the others, where these differ between the two.
  std::vector<StageBuffers> first_, others_;
  std::vector<std::int64_t> gradient_begin_;  // backward of a stage makes the gradient final from here on
};

}  // namespace petaflow
