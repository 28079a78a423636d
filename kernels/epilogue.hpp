// Work behind a convolution, a dense layer or the statistics of a batch norm: an affine map, pooling, activation and
// dropout in one pass over its result, and the way back.  Backward needs one byte (max pooling, dropout) or no more
// than the sign bits (average pooling, an activation alone).
//
//   z = scale v + bias + residual
//   no pooling, max:  y = dropout(act(max over the window of z))      act is monotone, so it commutes with max
//   average:          y = dropout(mean over the window of act(z))     padding counts as zeros in the mean
#pragma once

#include <cstdint>

#include "base/context.hpp"
#include "base/shape.hpp"
#include "base/tensor.hpp"

namespace petaflow {

enum class PoolKind { kNone, kMax, kAverage };

/// A pooling window.  Max pooling ignores padding; a window always contains at least one pixel.
struct PoolGeometry {
  PoolKind kind = PoolKind::kNone;
  Extent window{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0};

  /// Output extent, floor((in + 2 pad - window) / stride) + 1; 0 where the window does not fit.
  Extent output(const Extent& in) const;
  /// True where every pixel lies in at most one window and there is no padding.
  bool tiles() const { return window == stride && pad == Extent{0, 0, 0}; }
};

struct EpilogueDesc {
  Shape v, y;  // before and after; same n and c
  PoolGeometry pool;
  bool bias = false;
  bool activation = false;
  float negative_slope = 0;  // of the activation, >= 0
  float dropout = 0;         // probability of being dropped, in [0, 1)
  int layer = 0;             // names the dropout layer in the random stream
  DType type = DType::kF32;
  bool dv_in_f32 = false;  // of a type that is not: for sums over dv that are not to see it rounded

  /// True where backward must know something beyond dy.
  bool saves() const { return pool.kind != PoolKind::kNone || activation || dropout > 0; }
  /// True where that is the sign of z alone, a bit.
  bool saves_signs() const {
    return activation && (pool.kind == PoolKind::kAverage || (pool.kind == PoolKind::kNone && dropout == 0));
  }
  /// Bytes kept from forward to backward for `samples` samples; a sample's bytes are contiguous.
  std::int64_t saved_bytes_per_sample() const;
};

/// Indices from `begin` to before `end`.
struct Interval {
  std::int64_t begin = 0, end = 0;

  KOKKOS_INLINE_FUNCTION constexpr std::int64_t size() const { return end - begin; }
  bool operator==(const Interval&) const = default;
};

/// Pixels of some samples, such as those of a tile: ranges along D and H, whole along W.
struct TileRange {
  Interval sample, d, h;

  KOKKOS_INLINE_FUNCTION constexpr std::int64_t rows() const { return sample.size() * d.size() * h.size(); }
  bool operator==(const TileRange&) const = default;
};

/// All of a tensor.
constexpr TileRange whole_range(const Shape& shape) { return {{0, shape.n}, {0, shape.d}, {0, shape.h}}; }

/// A maximum is over so many pixels at most: what its 14-bit codes can tell apart.
inline constexpr std::int64_t kLargestMaxWindow = 16384;

/// The gradient of a bias (C): some pixels are summed in f32, and these sums in double, so that sums of millions of
/// pixels keep the precision of f32.
struct BiasSum {
  float* some = nullptr;  // zero before and after
  double* total = nullptr;
};

/// Terms of z beyond v + bias.
struct EpilogueMap {
  const float* scale = nullptr;  // (C); null: 1
  Tensor residual{};             // of v's shape and of the epilogue's type; without data: 0
};

/// The epilogue of one stage.  v is given as a dense buffer of a tile (samples, d, h, W, C); y and saved are whole.
class Epilogue {
 public:
  Epilogue() = default;
  Epilogue(const EpilogueDesc& desc, const float* bias, const Tensor& y, const Tensor& dy, std::uint8_t* saved,
           const EpilogueMap& map = {});

  const EpilogueDesc& desc() const { return desc_; }
  const Tensor& dy() const { return dy_; }
  /// Bytes that forward kept; where EpilogueDesc::saves_signs(), a bit for each channel, whole bytes for each pixel.
  const std::uint8_t* saved() const { return saved_; }
  /// The part of v under a tile of y, clipped to v.
  TileRange v_under(const TileRange& y_range) const;

  /// Writes a tile of y (and saved) from v; serial, for use inside a parallel region of the host.
  void forward(const Context& context, const TileRange& y_range, const TileRange& v_range, const void* v) const;
  /// Writes a tile of dv = dz (dense buffer, =) from dy and saved; adds its sum over pixels to bias_gradient, if there
  /// is one; serial.
  void backward(const Context& context, const TileRange& v_range, void* dv, const BiasSum& bias_gradient = {}) const;

  /// Everything at once, as a kernel on the context's instance; v and dv are whole.
  /// @param v_stride  elements between the pixels of v or dv; 0: C
  void forward_all(const Context& context, const std::string& label, const void* v, std::int64_t v_stride = 0) const;
  void backward_all(const Context& context, const std::string& label, void* dv, std::int64_t v_stride = 0) const;

 private:
  /// Calls run(operands, work), with the operands in their types.
  template <class V, class T, class Run>
  void with_operands(const Context& context, const TileRange& v_range, void* v, std::int64_t v_stride, const Tensor& y,
                     std::uint8_t* saved, const BiasSum& bias_gradient, const Run& run) const;
  template <class Run>
  void with_forward(const Context& context, const TileRange& v_range, const void* v, std::int64_t v_stride,
                    const Run& run) const;
  template <class Run>
  void with_backward(const Context& context, const TileRange& v_range, void* dv, std::int64_t v_stride,
                     const BiasSum& bias_gradient, const Run& run) const;
  /// True where backward goes from y to v: every pixel of v is written, once.
  bool scatters() const;
  /// The part of y whose windows touch a tile of v.
  TileRange y_over(const TileRange& v_range) const;

  EpilogueDesc desc_;
  const float* bias_ = nullptr;
  EpilogueMap map_;
  Tensor y_, dy_;
  std::uint8_t* saved_ = nullptr;
};

}  // namespace petaflow
