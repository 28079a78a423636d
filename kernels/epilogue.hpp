// What follows a convolution or a dense layer: bias, pooling, activation and dropout in one pass over its result, and
// the way back.  Backward needs one byte (max pooling, no pooling) or no more than the sign bits (average pooling).
//
//   no pooling, max:  y = dropout(act(max over the window of (v + b)))      act is monotone, so it commutes with max
//   average:          y = dropout(mean over the window of act(v + b))       padding counts as zeros in the mean
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

  /// True where backward must know something beyond dy.
  bool saves() const { return pool.kind != PoolKind::kNone || activation || dropout > 0; }
  /// Bytes kept from forward to backward for `samples` samples; a sample's bytes are contiguous.
  std::int64_t saved_bytes_per_sample() const;
};

/// A range of rows of some samples.  Rows are counted along the outermost spatial direction that has more than one
/// element (D in 3-D, H in 2-D); the other directions are whole.
struct RowRange {
  std::int64_t sample_begin = 0, sample_end = 0, begin = 0, end = 0;

  constexpr std::int64_t samples() const { return sample_end - sample_begin; }
  constexpr std::int64_t rows() const { return end - begin; }
};

/// A maximum is over so many pixels at most: what its 14-bit codes can tell apart.
inline constexpr std::int64_t kLargestMaxWindow = 16384;

/// The epilogue of one stage.  v is given as a dense buffer that holds the rows `v_rows` of the samples `rows`
/// (n, rows, ..., C); y and saved are whole.
class Epilogue {
 public:
  Epilogue() = default;
  Epilogue(const EpilogueDesc& desc, const float* bias, const Tensor& y, const Tensor& dy, std::uint8_t* saved);

  const EpilogueDesc& desc() const { return desc_; }
  /// Rows of v under the rows of y, clipped to v.
  RowRange v_rows(const RowRange& y_rows) const;

  /// Writes the rows y_rows of y (and saved) from v; serial, for use inside a parallel region of the host.
  void forward(const Context& context, const RowRange& y_rows, const RowRange& v_rows, const void* v) const;
  /// Writes the rows v_rows of dv (dense buffer, =) from dy and saved; adds their sum over pixels to bias_gradient
  /// (C) unless it is null; serial.
  void backward(const Context& context, const RowRange& v_rows, void* dv, float* bias_gradient) const;

  /// Everything at once, as a kernel on the context's instance; v and dv hold all rows.
  void forward_all(const Context& context, const std::string& label, const void* v) const;
  void backward_all(const Context& context, const std::string& label, void* dv) const;

 private:
  template <class Run>
  void with_blocks(const Context& context, const RowRange& v_rows, void* v, const Tensor& y, std::uint8_t* saved,
                   float* bias_gradient, const Run& run) const;
  RowRange all(const Shape& shape) const;
  /// True where backward goes from y to v: every pixel of v is written, once.
  bool scatters() const;
  /// Rows of y whose windows touch the rows of v.
  RowRange y_rows_over(const RowRange& v_rows) const;

  EpilogueDesc desc_;
  const float* bias_ = nullptr;
  Tensor y_, dy_;
  std::uint8_t* saved_ = nullptr;
  bool rows_are_d_ = false;
};

}  // namespace petaflow
