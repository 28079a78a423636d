// How the passes of a convolution are cut into boxes whose convolution output stays in a thread's L2: bands of rows in
// 2-D, planes and where these are too large bands of their rows in 3-D.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/epilogue.hpp"
#include "nn/network_options.hpp"

namespace petaflow {

/// What one box reads and writes.
struct BandBox {
  RowBox x, v, y;         // of the convolution's input and output, and of the pooled output
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
  std::int64_t largest_v_bytes() const;
};

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
  /// conv.threads: of the kernel of a whole box; 1: boxes are always better
  BandCutter(const ConvDesc& conv, const Epilogue& epilogue, int slots, const KernelOptions& kernels);

  /// Boxes of y, a partition.
  Bands forward() const;
  /// Boxes of v, a partition of the convolution's output.
  Bands backward_weights() const;
  /// Boxes of x, a partition of the convolution's input; v is what each of them needs.
  Bands backward_data() const;

 private:
  struct Direction {  // the geometry along D or H
    std::int64_t in, out, kernel, stride, dilation, pad;
    /// What the rows of v read.
    Interval x_under(const Interval& v) const;
    /// What reads the rows of x.
    Interval v_over(const Interval& x) const;
  };
  /// How one direction of what a pass partitions is cut.
  struct Cut {
    std::int64_t rows, align, least;  // heights are multiples of align, and least or more
    double v_rows;                    // of v for each row
  };
  /// @param planes, rows  along D and H
  template <class MakeBox>
  Bands cut(const BoxRows& preferred, const Cut& planes, const Cut& rows, MakeBox&& make_box) const;
  ConvDesc describe(const BandBox& box) const;
  BoxRows preferred(Pass pass) const { return transforms_ ? winograd_rows(pass, conv_) : BoxRows{}; }
  /// What of it counts along D or H.
  BoxRows along(bool d, const BoxRows& preferred) const { return d == deep_ ? preferred : BoxRows{}; }

  ConvDesc conv_;
  const Epilogue& epilogue_;
  Direction d_, h_;
  bool deep_, transforms_;
  int slots_;
  double budget_bytes_;
  bool bands_;
};

}  // namespace petaflow
