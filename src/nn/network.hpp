// A network that runs: the graph lowered to stages, its memory planned, its parameters flat.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/context.hpp"
#include "base/tensor.hpp"
#include "nn/arena.hpp"
#include "nn/graph.hpp"
#include "nn/network_options.hpp"
#include "nn/stage.hpp"

namespace petaflow {

/// A parameter in the flat arrays, in the order of the graph.
struct Parameter {
  std::string name;  // "conv1/weight"
  ParamSpec spec;
  std::int64_t offset = 0;  // first element in weights() and in a flat gradient
};

/// What one stage is and has cost so far, for tables.
struct StageReport {
  std::string name;                                      // "conv1 + bias + max pool + relu + dropout"
  std::vector<std::string> layers;                       // those fused into it
  Shape input, output;                                   // with the batch
  std::string forward, backward_data, backward_weights;  // implementation per pass, "-" where there is none
  std::vector<std::string> refusals;                     // why faster implementations were passed over
  double forward_flop = 0, backward_flop = 0;            // of one batch
  std::size_t saved_bytes = 0, scratch_bytes = 0;
  StageKind kind = StageKind::kPointwise;
  // Wall time of training passes, added up: forward, backward, and of backward the part for the parameters' gradients
  // (convolutions only).
  double forward_s = 0, backward_s = 0, backward_weights_s = 0;
};

/// A block of the memory plan, for tables.
struct BlockReport {
  std::string name;  // "conv1 output"
  std::size_t size_bytes = 0, offset = 0;
  std::string alive;  // "always", "forward conv1 to backward conv2": the stages' first layers
};

class Network {
 public:
  Network(const Graph& graph, const NetworkOptions& options, const Context& context);
  ~Network();

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::int64_t parameter_elements() const { return parameter_elements_; }  // of the flat arrays
  std::int64_t trained_elements() const;                                   // without running statistics
  std::int64_t batch() const { return options_.batch; }

  /// Flat f32 master weights in MemorySpace; call refresh() after writing them.
  float* weights() const { return weights_; }
  /// Draws all weights from (seed, parameter index, element) and refreshes.
  void initialise(const Context& context, std::uint64_t seed);
  /// Renews the copies that the kernels keep of the weights.
  void refresh(const Context& context);

  Tensor input() const { return input_; }                      // (batch, C, D, H, W), to be filled before forward()
  Tensor output() const { return output_; }                    // valid after forward()
  Tensor output_gradient() const { return output_gradient_; }  // to be filled before backward()

  void forward(const Context& context);
  /// Writes (=) the flat gradient of all parameters to `gradient`, layer by layer from the last to the first.
  /// `ready(begin, end)` is called when the elements [begin, end) are final.
  void backward(const Context& context, float* gradient,
                const std::function<void(std::int64_t, std::int64_t)>& ready = {});

  /// A sum over ranks (Context::sum_over_ranks).
  struct RankSum {
    std::int64_t values = 0;
    std::int64_t final_from = 0;  // the elements of the gradient from here on have been said to be ready before
  };
  /// Those of one training pass, forward and backward, in their order.
  std::vector<RankSum> rank_sums() const;

  std::vector<StageReport> report() const;
  void reset_times();
  double forward_flop() const;   // of one batch: 2 per multiply-add, convolutions and dense
  double backward_flop() const;  // likewise, without the gradient of the input
  std::size_t arena_bytes() const { return arena_.size_bytes(); }
  std::size_t arena_huge_page_bytes() const { return arena_.huge_page_bytes(); }
  /// The largest first; those without bytes are left out.
  std::vector<BlockReport> blocks() const;

 private:
  NetworkOptions options_;
  std::vector<Parameter> parameters_;
  std::int64_t parameter_elements_ = 0;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<StageReport> reports_;
  std::vector<std::int64_t> gradient_begin_;  // backward of a stage makes the gradient final from here on
  Arena arena_;
  float* weights_ = nullptr;
  Tensor input_, output_, output_gradient_;
};

}  // namespace petaflow
