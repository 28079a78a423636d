// The stage of a convolution and what follows it: bias, residual, pooling, activation, dropout.  Forward computes a
// tile of the convolution in a thread's L2 and finishes it there; backward rebuilds a tile of its gradient there.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "nn/network_options.hpp"
#include "nn/parallel.hpp"
#include "nn/stage.hpp"
#include "nn/tiles.hpp"

namespace petaflow {

/// A batch norm by running statistics: z = scale v + offset for each channel.
struct RunningNorm {
  std::optional<StageParameter> weight, bias;  // nothing: 1 and 0
  StageParameter mean, variance;
  float epsilon = 0;
};

class ConvStage final : public Stage {
 public:
  struct Options {
    std::string name;  // of the convolution layer, for labels and messages
    ConvDesc conv;  // the whole convolution, n = batch; x and dx, which may be slices, have its x_strides (transposed:
                    // y_strides)
    EpilogueDesc epilogue;
    StageParameter weight;
    std::optional<StageParameter> bias;
    bool backward = true, wants_dx = true, fixed_order = false;
    std::array<ConvPassOptions, 3> kernels;  // by pass of the stage
    ConvRole role = ConvRole::kConvolution;
    float gain = 1;                                  // factor of the weights
    bool residual = false;                           // x[1], of v's shape, is added before activation and pooling
    bool y_is_slice = false;                         // pixels of y and dy are further apart than their channels
    std::optional<RunningNorm> norm = std::nullopt;  // for inference: between the bias and the residual

    Shape x() const;
    /// Elements from one pixel of x to the next: more than its channels where x is a slice.
    std::int64_t x_pixel_stride() const;
    /// True where y is v with no more than a bias, in dense memory: dv is dy.
    bool is_linear() const { return !epilogue.saves() && !residual && !y_is_slice && !norm; }
  };
  ConvStage(const Options& options, const Context& context);
  /// The tiles of one pass of such a stage.
  static Tiling cut(const Options& options, Pass pass, const Context& context);
  /// One pass alone, with the renewal of its kernel's weights: what a step spends on it.
  void run(const Context& context, Pass pass, float* gradient);

  std::size_t saved_bytes() const override;
  std::size_t forward_scratch_bytes() const override { return scratch_bytes(forward_); }
  std::size_t backward_scratch_bytes() const override {
    return std::max(scratch_bytes(weights_), scratch_bytes(data_));
  }
  bool backward_needs_input(std::size_t input) const override { return input == 0; }
  bool can_overwrite(std::size_t input) const override { return input == 0; }  // gradients of weights come first
  bool can_add(std::size_t /*input*/) const override { return true; }
  bool takes_slices() const override { return true; }
  void prepare_to_add(const std::vector<bool>& adds, const Context& context) override;
  void refresh(const Context& context) override;
  void forward(const Context& context) override;
  void backward(const Context& context, float* gradient) override;

  std::string describe_forward() const override { return describe(forward_); }
  std::string describe_backward_data() const override { return describe(data_); }
  std::string describe_backward_weights() const override { return describe(weights_); }
  std::vector<std::string> refusals() const override;
  StageKind kind() const override { return StageKind::kConvolution; }
  /// Where it is depthwise.
  bool is_memory_bound() const override {
    return options_.conv.geometry.groups > 1 && options_.conv.geometry.groups == options_.conv.in_channels;
  }

 private:
  struct PassPlan {
    Tiling tiling;
    ConvChoice choice;
    bool in_y = false;          // the tiles of v are pieces of y or dy
    std::string region, label;  // petaflow::conv1::forward, and with the implementation: names for tools
    Kokkos::View<std::byte*, MemorySpace> packed;  // the kernel's weights, where they are kept between passes
    std::size_t exact_elements = 0;                // backward weights: sums in double
    /// Where the pieces of a thread's or part's scratch begin, in bytes; behind all of these lies what they share.
    struct Scratch {
      std::size_t shared = 0;  // of all threads: the kernel's weights, where each pass packs them anew
      std::size_t v = 0;       // v of a tile, dense; the first piece
      std::size_t dx = 0;      // dx of a tile, dense, where it is added to what is there
      std::size_t kernel = 0;  // what the kernel asks for
      std::size_t sum = 0;    // backward weights, f32: the weights' gradient in the kernel's order, the bias' behind it
      std::size_t exact = 0;  // in double: the weights' gradient where there are many tiles, and the bias'
      std::size_t channels = 0;  // for the sum of a whole v over its pixels
      std::size_t bytes = 0;     // of one thread or part
    } scratch;
  };
  PassPlan plan(Pass pass, const Context& context) const;
  std::string describe(const PassPlan& plan) const;
  /// Whether the bias' gradient is a sum over dy of its own: tiles need not be a partition of v.
  bool sums_dy() const { return options_.bias && options_.is_linear(); }
  /// Whether the tiles of v may be pieces of y.
  bool lies_in_y(const Tiling& tiling, Pass pass) const;
  /// v of a tile: in y (forward) or dy, or in the scratch `memory`.
  std::byte* v_of(const PassPlan& plan, const Tile& tile, const Tensor& y, std::byte* memory) const;
  /// The operands of a kernel's call: `x` is the stage's own, or its gradient.
  /// @param weights  packed; nullptr: the pass computes their gradient
  ConvArgs args(const PassPlan& plan, std::byte* x, std::byte* v, std::byte* memory, const std::byte* weights,
                float* sum = nullptr) const;
  Epilogue epilogue() const;
  const float* parameter(const std::optional<StageParameter>& which) const {
    return which ? buffers.weights + which->offset : nullptr;
  }
  std::size_t areas_bytes(const PassPlan& plan) const;    // of all threads or parts
  std::size_t scratch_bytes(const PassPlan& plan) const;  // and what they share
  /// The weights times the gain, in PyTorch's order.
  const float* weights(const Context& context) const;
  /// Renews a pass' packed weights where they are kept.
  void refresh(const Context& context, const PassPlan& plan) const;
  /// The packed weights of a pass: those that are kept, or made now in its scratch; PyTorch's, where its kernel takes
  /// these.
  const std::byte* packed_weights(const Context& context, const PassPlan& plan, std::byte* scratch) const;
  void backward_weights(const Context& context, float* gradient);
  /// Leave the gradient of the weights, and of the bias behind it, in sum_of(0), or that of the weights in dw where
  /// its kernel has no order of its own.
  void sum_whole(const Context& context, float* dw);
  void sum_tiles(const Context& context);
  /// @param dv_is_whole  the gradient of the weights, just computed, left all of dv where this pass has it, too
  void backward_data(const Context& context, bool dv_is_whole);

  /// Scratch of a part of the weights' gradient, and its sum.
  std::byte* memory_of(int part) const;
  float* sum_of(int part) const { return reinterpret_cast<float*>(memory_of(part) + weights_.scratch.sum); }
  std::size_t sum_elements() const { return static_cast<std::size_t>(weights_.choice.kernel->gradient_elements()); }
  std::size_t v_channels() const { return static_cast<std::size_t>(options_.epilogue.v.c); }
  /// Adds the products of a tile's x and dv to the sum of a part, or sets dw, where that is `sum`, to them.
  void correlate(const Context& context, const Tile& tile, std::byte* dv, int part, float* sum) const;
  /// Sets the bias' part of sum_of(0) to the sum of a whole dv over its pixels.
  void sum_bias(const Context& context, const std::byte* dv) const;
  /// A tile of dv is that of the residual's gradient.
  void give_residual(const Context& context, int threads, const Tile& tile, const std::byte* dv) const;

  Options options_;
  Kokkos::View<float*, MemorySpace> norm_;    // the map of options_.norm, behind the bias
  Kokkos::View<float*, MemorySpace> scaled_;  // the weights times a gain other than 1
  bool adds_dx_ = false;
  Division division_;
  int scratch_areas_ = 1;  // of a pass in tiles: one each for threads or parts, of scratch.bytes
  PassPlan forward_, weights_, data_;
};

}  // namespace petaflow
