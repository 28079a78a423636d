// A stage: a run of operations that execute together.  The memory plan, the profiler, the fast paths and the
// communication see stages only.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/context.hpp"
#include "base/tensor.hpp"
#include "nn/network_options.hpp"

namespace petaflow {

/// Where the operands of a stage lie; fixed by the memory plan before the first step.
struct StageBuffers {
  std::vector<Tensor> x, y;        // inputs and outputs
  std::vector<Tensor> dx, dy;      // their gradients; no data where nobody wants them: where nothing before has weights
  std::vector<bool> adds;          // whether backward adds to dx[i], which other stages have written, or writes it
  const float* weights = nullptr;  // flat f32 masters of the whole network
  std::byte* saved = nullptr;      // saved_bytes(), written by forward and read by backward, nothing else is kept
  std::byte* forward_scratch = nullptr;  // contents undefined at each call
  std::byte* backward_scratch = nullptr;
};

/// A parameter as a stage sees it.
struct StageParameter {
  std::int64_t offset = 0;  // into the flat weights and gradients
};

/// Facts that a stage which a layer brings learns before anything else is asked of it.
struct StageSetup {
  std::string name;                        // of the layer
  std::vector<Shape> x;                    // of its inputs, with the batch
  std::vector<StageParameter> parameters;  // of the layer, in its order
  NetworkOptions options;
};

enum class StageKind { kConvolution, kDense, kPointwise };
constexpr const char* name_of(StageKind kind) {
  switch (kind) {
    case StageKind::kConvolution:
      return "convolution";
    case StageKind::kDense:
      return "dense";
    case StageKind::kPointwise:
      break;
  }
  return "pointwise";
}

class Stage {
 public:
  virtual ~Stage() = default;

  /// Called first, of stages that layers bring (StageOp).
  virtual void setup(const StageSetup&) {}
  virtual std::size_t saved_bytes() const { return 0; }
  virtual std::size_t forward_scratch_bytes() const { return 0; }
  virtual std::size_t backward_scratch_bytes() const { return 0; }
  /// True where backward reads x[input]; the plan then keeps it until then.
  virtual bool backward_needs_input(std::size_t /*input*/) const { return false; }
  /// True where backward has read x[input] before it writes dx[input], which the plan may then put in its place.
  virtual bool can_overwrite(std::size_t /*input*/) const { return false; }
  /// True where backward can add to dx[input].  Otherwise it writes to memory of its own, which is then added.
  virtual bool can_add(std::size_t /*input*/) const { return false; }
  /// True where x, y, dx and dy may be slices of the channels of wider pixels (Tensor::pixel_stride).  Otherwise they
  /// are copied.
  virtual bool takes_slices() const { return false; }
  /// Called before scratch and descriptions are asked for where backward will add: what buffers.adds will be.
  virtual void prepare_to_add(const std::vector<bool>& /*adds*/, const Context&) {}
  /// How many values forward in training, and backward, sum over ranks (Context::sum_over_ranks), known with the
  /// buffers.
  virtual std::int64_t forward_rank_sum() const { return 0; }
  virtual std::int64_t backward_rank_sum() const { return 0; }
  /// Type of all outputs, of stages that layers bring; inputs are f32, or of the network's input.
  virtual DType output_type() const { return DType::kF32; }
  /// True where inputs may be bf16 or fp16, too; outputs then have the type of the first one.
  virtual bool takes_any_precision() const { return false; }
  /// Renews packed copies of the weights; called once at least before the first pass.
  virtual void refresh(const Context&) {}
  /// y = stage(x).
  virtual void forward(const Context& context) = 0;
  /// y once more, for backward, of the same x and weights.
  virtual void forward_again(const Context& context) { forward(context); }
  /// True where forward_again() reads what forward saved, which is then kept in between.
  virtual bool keeps_saved() const { return false; }
  /// True where forward takes about as long as reading x and writing y does.
  virtual bool is_memory_bound() const { return kind() == StageKind::kPointwise; }
  /// dx[i] = (stage's Jacobian)^T dy, or += where adds[i], where dx[i] has data; the parameters' part of the flat
  /// `gradient` is overwritten.
  virtual void backward(const Context& context, float* gradient) = 0;

  /// Implementation per pass, for tables: "onednn brgconv:avx512_core, 8 tiles"; "-" where the pass does not exist.
  virtual std::string describe_forward() const { return "kokkos"; }
  virtual std::string describe_backward_data() const { return "kokkos"; }
  virtual std::string describe_backward_weights() const { return "-"; }
  virtual std::vector<std::string> refusals() const { return {}; }
  /// Kind of its arithmetic, for tables by category.
  virtual StageKind kind() const { return StageKind::kPointwise; }

  StageBuffers buffers;
  double backward_weights_s = 0;  // wall time of backward() that went into the parameters' gradients, added up
};

}  // namespace petaflow
