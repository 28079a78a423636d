// Convolution: the descriptor, the kernel interface, and the choice among the implementations, which stand in an
// ordered list for each pass (conv.cpp).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/context.hpp"
#include "base/dtype.hpp"
#include "base/shape.hpp"

namespace petaflow {

struct Card;

enum class Pass { kForward, kBackwardData, kBackwardWeights };
constexpr const char* name_of(Pass pass) {
  return pass == Pass::kForward ? "forward" : pass == Pass::kBackwardData ? "backward_data" : "backward_weights";
}

/// Element distances between neighbours of a channels-last operand; channels are adjacent.
struct Strides {
  std::int64_t n = 0, d = 0, h = 0, w = 0;

  /// Strides of a tensor of this extent whose pixels lie pixel_stride elements apart.
  static Strides of(const Extent& extent, std::int64_t pixel_stride) {
    return {extent.volume() * pixel_stride, extent.h * extent.w * pixel_stride, extent.w * pixel_stride, pixel_stride};
  }
  bool operator==(const Strides&) const = default;
};

/// The geometry of a convolution layer.
struct ConvGeometry {
  Extent kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  Extent pad_begin{0, 0, 0}, pad_end{0, 0, 0};
  std::int64_t groups = 1;
};

/// Output size of a window in one direction: (in + pad_begin + pad_end - dilation (kernel - 1) - 1) / stride + 1, and
/// 0 where the window does not fit.  The one place where this formula stands.
std::int64_t window_output(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                           std::int64_t pad_begin, std::int64_t pad_end);
Extent window_output(const Extent& in, const ConvGeometry& geometry);

/// How convolutions of f32 may multiply, where an implementation can: by f32 numbers ("fma"); by three products of bf16
/// ("split3"); by numbers that tensor cores round to TF32, which has the 10 bits of f16 ("tf32").
enum class F32Products { kFma, kSplit3, kTf32 };

/// How an implementation by transforms (Winograd's) takes a layer: kInLargePatches as kInTiles, by larger patches.
enum class Transforms { kNot, kInTiles, kInLargePatches, kWhole };

/// One convolution on one tile: cross-correlation
///   y(n, k, o) = sum_{c, t} x(n, g C/G + c, o stride + t dilation - pad_begin) w(k, c, t),  x = 0 outside,
/// with x (n, in_channels, in), w (out_channels, in_channels / groups, kernel), y (n, out_channels, out).
/// A tile of a larger convolution is described by its own extents and paddings and the strides of the whole tensors.
struct ConvDesc {
  std::int64_t n = 1, in_channels = 1, out_channels = 1;
  Extent in, out;
  ConvGeometry geometry;
  Strides x_strides, y_strides;               // x and dx share x_strides, y and dy y_strides
  std::int64_t x_channel = 0, y_channel = 0;  // of a pixel of a wider tensor, where x and y are slices that begin there
  DType type = DType::kF32;  // of x, y, dx, dy; weights and their gradients are f32 outside of a kernel
  bool widens = false;       // bf16, fp16: what forward and backward data write is f32
  F32Products products = F32Products::kFma;
  int threads = 1;  // 1: called from inside a parallel region; otherwise the kernel is parallel itself
  /// How transforms suit, where that was decided for the whole layer, so that its tiles agree with it.
  std::optional<Transforms> transforms = std::nullopt;

  std::int64_t weight_elements() const {
    return out_channels * (in_channels / geometry.groups) * geometry.kernel.volume();
  }
  double flop() const { return 2.0 * static_cast<double>(n * out.volume()) * static_cast<double>(weight_elements()); }
};

/// Whether two tiles of one layer are alike: a kernel for one of them is one for the other.
inline bool same_tile(const ConvDesc& a, const ConvDesc& b) {
  return a.n == b.n && a.in == b.in && a.out == b.out && a.geometry.pad_begin == b.geometry.pad_begin &&
         a.geometry.pad_end == b.geometry.pad_end && a.x_strides == b.x_strides && a.y_strides == b.y_strides;
}

/// Tiles that suit an implementation where a pass of a layer is cut into tiles of rows (along D in 3-D, along H in 2-D;
/// of y, or of x in the backward data pass): heights are multiples of `align`, `least` or more, and whole samples come
/// `samples` at a time or more; 1 where the implementation does not take the whole layer.
struct TileWishes {
  std::int64_t align = 1, least = 1, samples = 1;
  /// kNot: the implementation does not take the layer; kWhole: it is not to be cut.
  Transforms transforms = Transforms::kNot;
  bool fit() const { return transforms != Transforms::kNot; }
};

/// Operands of one call; which are read and written depends on the pass:
///   forward           y = conv(x, packed weights)
///   backward data     x = conv^T(y, packed weights)            (x is dx, y is dy)
///   backward weights  sum += dw(x, y) in the kernel's own order  (y is dy)
/// Kernels without an order of their own, for whole tensors only, take weights, and write dw, in PyTorch's order:
///   backward weights  sum = dw(x, y)
struct ConvArgs {
  void* x = nullptr;
  void* y = nullptr;
  float* sum = nullptr;                // gradient_elements() of them; where these are 0, dw itself
  std::byte* scratch = nullptr;        // scratch_bytes(), 64-byte aligned, not shared with a concurrent call
  const std::byte* weights = nullptr;  // packed_bytes(), as pack() left them; where these are 0, the f32 weights
};

/// A convolution ready to run on each of the tiles that it was made for, in one pass.
class ConvKernel {
 public:
  virtual ~ConvKernel() = default;
  /// Forward and backward data: bytes of the weights in the kernel's own order; 0: it takes PyTorch's.
  virtual std::size_t packed_bytes() const { return 0; }
  /// Only of forward and backward data: brings the weights (out_channels, in_channels / groups, kernel) from PyTorch's
  /// order into the kernel's own.
  /// @param packed  packed_bytes(), 64-byte aligned
  virtual void pack(const Context&, const float* /*weights*/, std::byte* /*packed*/) const {}
  /// Runs on the tile tiles[tile] given to make.
  virtual void run(const Context& context, std::size_t tile, const ConvArgs& args) = 0;
  virtual std::size_t scratch_bytes() const { return 0; }
  /// Backward weights: elements of the kernel's own gradient order, and dw = its sum in PyTorch's order; 0: it has
  /// none.
  virtual std::int64_t gradient_elements() const { return 0; }
  virtual void unpack_gradient(const Context&, const float* /*sum*/, float* /*dw*/) {}
  /// Name of the code that runs, for the log: "onednn brgconv:avx512_core".
  virtual std::string detail() const = 0;
};

/// Range of layers that an implementation is for.
enum class ConvScope {
  kAny,         // all that its library or its authors get to: where it refuses, the log says so
  kSome,        // some layers only
  kTransform,   // some layers only, and not by the sums of products of the definition
  kAlternative  // what the one listed before it takes, otherwise: asked where its name is given, and timed
};

/// One implementation.  The tiles of a call belong to one layer: they differ in samples, extents, paddings and strides
/// of tensors.
struct ConvImpl {
  const char* name;
  /// Empty where the implementation accepts, otherwise the reason in a few words.
  std::string (*why_not)(Pass pass, std::span<const ConvDesc> tiles);
  std::unique_ptr<ConvKernel> (*make)(Pass pass, std::span<const ConvDesc> tiles);
  ConvScope scope = ConvScope::kAny;
  /// Tiles that suit a pass of the whole layer; none: any do.
  TileWishes (*wishes)(Pass pass, const ConvDesc& whole) = nullptr;
};

/// The implementations of this build in order of preference; "kokkos" never refuses.
/// @param like  the type, products, threads, strides and dilations of a convolution or of its tiles
std::span<const ConvImpl* const> conv_impls(Pass pass, const ConvDesc& like = {});

/// The implementation of that name; nullptr: this build has none.
const ConvImpl* find_conv(std::string_view name);

/// The implementation that is to compute a pass.
struct ConvRequest {
  enum class Rule {
    kAuto,    // the first implementation that accepts
    kDirect,  // the first one that sums the products of the definition
    kTune,    // the fastest one, which nn/conv_tuning.hpp finds
    kOnly,    // `impl`
    kPrefer   // `impl` where it accepts, otherwise as kAuto
  };
  Rule rule = Rule::kAuto;
  const ConvImpl* impl = nullptr;

  bool operator==(const ConvRequest&) const = default;
};

/// The words for requests: "auto", "direct", "tune"; for each implementation of this build NAME and "prefer:NAME".
std::vector<std::pair<std::string, ConvRequest>> conv_requests();

/// Instructions that multiply bf16 here: "AMX tiles", "AVX512_BF16", or "f32 arithmetic" where there are none.
std::string bf16_products();

struct ConvChoice {
  const ConvImpl* impl = nullptr;
  std::unique_ptr<ConvKernel> kernel;
  std::vector<std::string> refusals;  // "not onednn: ..." of those passed over that are for any layer or preferred
};

/// The implementation that is asked for, made for all tiles of a layer.  One that must be taken and refuses is a user
/// error with the pass and the reason.  kTune must have been replaced by what was found.
ConvChoice choose_conv(Pass pass, std::span<const ConvDesc> tiles, const ConvRequest& request);

/// What a pass would run on a GPU that need not be there.
struct ConvPlan {
  std::string engine;  // "kokkos", "cudnn eng11_k2=3"
  std::int64_t workspace_bytes = 0;
  std::vector<std::string> refusals;  // as of a ConvChoice
};

/// From now on choices are those for this GPU, and convolutions can be planned alone.  Throws a user error where this
/// build has no cuDNN.
void plan_convs_for(const Card& card);
/// Behind plan_convs_for(): what choose_conv() would take for a whole layer.
ConvPlan plan_conv(Pass pass, const ConvDesc& whole, const ConvRequest& request);

/// The wishes of the implementation that is to compute a pass of the whole layer; none where it has no wishes.
std::optional<TileWishes> tile_wishes(Pass pass, const ConvDesc& whole, const ConvRequest& request);

}  // namespace petaflow
