// How the passes of a convolution are cut into boxes: bands of rows whose convolution output stays in a thread's L2.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/epilogue.hpp"
#include "nn/network_options.hpp"

namespace petaflow {

/// The rows that one box reads and writes.  Rows run along D in 3-D and along H in 2-D.
struct BandBox {
  RowRange x, v, y;       // of the convolution's input and output, and of the pooled output
  std::size_t shape = 0;  // index into Bands::shapes
};

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

  /// Boxes of pooled rows: together they write y.
  Bands forward() const;
  /// Boxes of rows of v: a partition of the convolution's output.
  Bands backward_weights() const;
  /// Boxes of rows of x: a partition of the convolution's input; v is what each of them needs.
  Bands backward_data() const;

 private:
  struct Direction {  // the geometry along the rows
    std::int64_t in, out, kernel, stride, dilation, pad;
  };
  template <class MakeBox>
  Bands cut(std::int64_t rows, const BoxRows& preferred, double v_bytes_per_row, MakeBox&& make_box) const;
  ConvDesc describe(const BandBox& box) const;
  RowRange x_under(const RowRange& v) const;

  ConvDesc conv_;
  const Epilogue& epilogue_;
  Direction rows_;
  BoxRows preferred_;
  std::int64_t v_row_bytes_;
  int slots_;
  double budget_bytes_;
  bool bands_;
};

}  // namespace petaflow
