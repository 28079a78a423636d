// How the passes of a convolution are cut into boxes whose convolution output stays in a thread's L2: bands of rows in
// 2-D, planes and where these are too large bands of their rows in 3-D.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/epilogue.hpp"
#include "kernels/register_blocks.hpp"
#include "nn/conv_role.hpp"
#include "nn/network_options.hpp"

namespace petaflow {

/// What one box reads and writes.
struct BandBox {
  RowBox x, v, y;         // of the stage's input, of what its convolution gives, and of the pooled output
  std::size_t shape = 0;  // index into Bands::shapes
};

/// Elements from the first one of a tensor to the first one of a box.
inline std::int64_t offset_of(const RowBox& box, const Strides& s) {
  return box.sample.begin * s.n + box.d.begin * s.d + box.h.begin * s.h;
}

/// One pass, cut into boxes.  A single box is the whole tensor, computed by a kernel that is parallel itself;
/// otherwise the boxes run in parallel and their kernels are made for one thread.
struct Bands {
  std::vector<BandBox> boxes;
  std::vector<ConvDesc> shapes;  // the few different convolutions among the boxes

  bool whole() const { return boxes.size() == 1; }
  /// Of the boxes of v, which has this shape.
  std::int64_t largest_v_bytes(const Shape& v, DType type) const;
};

/// Strides of a dense box of a tensor that has the strides `whole`.
Strides dense_box(std::int64_t samples, const Extent& extent, std::int64_t channels, const Strides& whole);

/// Of one core of the host; 1 MiB where the system does not say.
std::int64_t level2_bytes();

/// Cuts the passes of one convolution with its epilogue.
class BandCutter {
 public:
  /// @param conv     the whole convolution; its y is a dense tensor (n, out_channels, out) that need not exist
  /// @param epilogue what follows it
  /// @param slots    there should be several boxes for each of them
  /// @param kernels  without bands: one box per pass; `conv` says whether the heights that Winograd prefers count,
  ///                 `cache_share` how large boxes may be
  /// @param role     what the convolution is to the stage
  /// conv.threads: of the kernel of a whole box; 1: boxes are always better
  BandCutter(const ConvDesc& conv, const Epilogue& epilogue, int slots, const KernelOptions& kernels,
             ConvRole role = ConvRole::kConvolution);

  /// Boxes of y, a partition.
  Bands forward() const;
  /// Boxes of v, a partition.
  Bands backward_weights() const;
  /// Boxes of x, a partition; v is what each of them needs.
  Bands backward_data() const;

 private:
  struct Direction {  // the geometry of the convolution along D or H
    std::int64_t in, out, kernel, stride, dilation, pad;
    /// What the rows of the output read.
    Interval in_under(const Interval& rows) const;
    /// What reads the rows of the input.
    Interval out_over(const Interval& rows) const;
    /// Rows of the output that a range of rows of the input shares with the next one.
    std::int64_t shared() const { return ceil_div((kernel - 1) * dilation, stride); }
  };
  /// Rows of the stage's x that rows of v depend on, and the other way round.
  Interval x_of(const Direction& along, const Interval& v) const {
    return transposed() ? along.out_over(v) : along.in_under(v);
  }
  Interval v_of(const Direction& along, const Interval& x) const {
    return transposed() ? along.in_under(x) : along.out_over(x);
  }
  /// Extents of the stage's x and of v along a direction.
  std::int64_t x_rows(const Direction& along) const { return transposed() ? along.out : along.in; }
  std::int64_t v_rows(const Direction& along) const { return transposed() ? along.in : along.out; }
  bool transposed() const { return role_ == ConvRole::kTransposed; }
  /// How one direction of what a pass partitions is cut.
  struct Cut {
    std::int64_t rows, align, least;  // heights are multiples of align, and least or more
    double v_rows;                    // of v for each row
  };
  /// @param planes, rows  along D and H
  template <class MakeBox>
  Bands cut(const BoxRows& preferred, const Cut& planes, const Cut& rows, MakeBox&& make_box) const;
  ConvDesc describe(const BandBox& box) const;
  BoxRows preferred(Pass pass) const { return transforms_ ? winograd_rows(pass_of(role_, pass), conv_) : BoxRows{}; }
  /// What of it counts along D or H.
  BoxRows along(bool d, const BoxRows& preferred) const { return d == deep_ ? preferred : BoxRows{}; }

  ConvDesc conv_;
  ConvRole role_;
  const Epilogue& epilogue_;
  Direction d_, h_;
  bool deep_, transforms_;
  int slots_;
  double budget_bytes_;
  bool bands_;
};

}  // namespace petaflow
