// How the passes of a convolution are cut into tiles whose convolution output stays in a thread's L2: ranges of rows in
// 2-D, of planes in 3-D, and where these are too large of rows of planes.
//
// A tile is a convolution of its own, with smaller extents and uneven paddings: the part of the output (forward), of
// the output's gradient (backward weights) or of the input's gradient (backward data) that it writes, and what it reads
// for that.  For one sample of a 3x3 layer with maxima over 2x2 behind it, cut into tiles of two rows of the pooled
// output:
//
//   pass              partitions            computes or reads for it
//   forward           y rows [2i, 2i + 2)   v rows [4i, 4i + 4), x rows [4i - 1, 4i + 5)
//   backward weights  v rows [4i, 4i + 4)   x rows [4i - 1, 4i + 5)
//   backward data     x rows [4i, 4i + 4)   v rows [4i - 1, 4i + 5)
//
// with x and v the convolution's input and output, and y the pooled output.  v exists only in tiles.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/epilogue.hpp"
#include "nn/network_options.hpp"

namespace petaflow {

/// What one tile reads and writes.
struct Tile {
  RowBox x, v, y;         // of the convolution's input and output, and of the pooled output
  std::size_t shape = 0;  // index into Tiling::shapes
};

/// Elements from the first one of a tensor to the first one of these rows.
inline std::int64_t offset_of(const RowBox& rows, const Strides& s) {
  return rows.sample.begin * s.n + rows.d.begin * s.d + rows.h.begin * s.h;
}

/// One pass, cut into tiles.  A single tile is the whole tensor, computed by a kernel that is parallel itself;
/// otherwise the tiles run in parallel and their kernels are made for one thread.
struct Tiling {
  std::vector<Tile> tiles;
  std::vector<ConvDesc> shapes;  // the few different convolutions among the tiles

  bool whole() const { return tiles.size() == 1; }
  std::int64_t largest_v_bytes() const;
};

/// Of one core of the host; 1 MiB where the system does not say.
std::int64_t level2_bytes();

/// Cuts the passes of one convolution with its epilogue.
class TileCutter {
 public:
  /// @param conv     the whole convolution; its y is a dense tensor (n, out_channels, out) that need not exist
  /// @param epilogue what follows it
  /// @param slots    there should be several tiles for each of them
  /// @param options  without tiles: one per pass; `conv` says whose wishes count, `cache_share` how large tiles may be
  /// conv.threads: of the kernel of a whole tensor; 1: tiles are always better
  TileCutter(const ConvDesc& conv, const Epilogue& epilogue, int slots, const ConvPassOptions& options);

  /// Tiles of y, a partition.
  Tiling forward() const;
  /// Tiles of v, a partition of the convolution's output.
  Tiling backward_weights() const;
  /// Tiles of x, a partition of the convolution's input; v is what each of them needs.
  Tiling backward_data() const;

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
  using Wishes = std::optional<TileWishes>;  // of the implementation of a pass, where it has some
  /// @param planes, rows  along D and H
  template <class MakeTile>
  Tiling cut(const Wishes& wishes, const Cut& planes, const Cut& rows, MakeTile&& make_tile) const;
  ConvDesc describe(const Tile& tile) const;
  Wishes wishes(Pass pass) const { return tile_wishes(pass, conv_, options_.conv); }
  /// What of them counts along D or H.
  TileWishes along(bool d, const Wishes& wishes) const { return d == deep_ && wishes ? *wishes : TileWishes{}; }

  ConvDesc conv_;
  const Epilogue& epilogue_;
  ConvPassOptions options_;
  Direction d_, h_;
  bool deep_;  // 3-D: cut along D first
  int slots_;
  double budget_bytes_;  // for v of a tile
};

}  // namespace petaflow
