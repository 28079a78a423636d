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
// with x the stage's input, v its convolution's output and y the pooled output.  v exists only in tiles.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/epilogue.hpp"
#include "kernels/register_blocks.hpp"
#include "nn/conv_role.hpp"
#include "nn/network_options.hpp"

namespace petaflow {

/// Rows that one tile reads and writes.
struct Tile {
  TileRange x, v, y;      // of the stage's input, of what its convolution gives, and of the pooled output
  std::size_t shape = 0;  // index into Tiling::shapes
};

/// Elements from the first one of a tensor to the first one of these rows.
inline std::int64_t offset_of(const TileRange& rows, const Strides& s) {
  return rows.sample.begin * s.n + rows.d.begin * s.d + rows.h.begin * s.h;
}

/// One pass, cut into tiles.  A single tile is the whole tensor, computed by a kernel that is parallel itself;
/// otherwise the tiles run in parallel and their kernels are made for one thread.
struct Tiling {
  std::vector<Tile> tiles;
  std::vector<ConvDesc> shapes;  // the few different convolutions among the tiles

  bool whole() const { return tiles.size() == 1; }
  /// Size of the largest tile of v, which has this shape.
  std::int64_t largest_v_bytes(const Shape& v, DType type) const;
};

/// Strides of a dense tile of a tensor that has the strides `whole`.
Strides dense_tile(std::int64_t samples, const Extent& extent, std::int64_t channels, const Strides& whole);

/// Size of the L2 cache of one core of the host; 1 MiB where the system does not say.
std::int64_t level2_bytes();

/// Cuts the passes of one convolution with its epilogue.
class TileCutter {
 public:
  /// @param conv     the whole convolution; its y is a dense tensor (n, out_channels, out) that need not exist; its
  ///                 threads are those of the kernel of a whole tensor: with 1, tiles are always better
  /// @param epilogue what follows it
  /// @param parts    partial sums of a pass: as many tiles or more are tried for where the implementation has wishes
  ///                 (TileWishes::fit()), four times as many elsewhere
  /// @param options  without tiles: one per pass; `conv` says whose wishes count, `cache_share` how large tiles may be
  /// @param role     what the convolution is to the stage
  TileCutter(const ConvDesc& conv, const Epilogue& epilogue, int parts, const ConvPassOptions& options,
             ConvRole role = ConvRole::kConvolution);

  /// Tiles of y, a partition.
  Tiling forward() const;
  /// Tiles of v, a partition; or of x, each with all of v that meets it: fewer rows are looked at twice where the
  /// convolution is transposed, but sums over v would count some of its rows twice.
  Tiling backward_weights(bool of_x = false) const;
  /// Tiles of x, a partition; v is what each of them needs.
  Tiling backward_data() const;

 private:
  struct Direction {  // the geometry of the convolution along D or H
    std::int64_t in, out, kernel, stride, dilation, pad;
    /// Input rows that these rows of the output read.
    Interval in_under(const Interval& rows) const;
    /// Output rows that read these rows of the input.
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
  using Wishes = std::optional<TileWishes>;  // of the implementation of a pass, where it has some
  /// Rows of a tile along the direction that is cut first and along the other one, and its samples.
  struct TileSize {
    std::int64_t outer, inner, samples;
  };
  TileSize size_of_tiles(const TileWishes& wished, const Cut& outer, const Cut& inner) const;
  /// @param planes, rows  along D and H
  template <class MakeTile>
  Tiling cut(const Wishes& wishes, const Cut& planes, const Cut& rows, MakeTile&& make_tile) const;
  /// Tiles of x, a partition; v is what each of them needs.
  Tiling cut_x(const Wishes& wishes) const;
  Tiling whole(const Wishes& wishes) const;
  /// Whether gradients of weights are better summed over whole tensors.
  bool sums_exceed_caches() const;
  ConvDesc describe(const Tile& tile) const;
  Wishes wishes(Pass pass) const { return tile_wishes(pass_of(role_, pass), conv_, options_.conv); }
  /// The wishes that count along D or H.
  TileWishes along(bool d, const Wishes& wishes) const { return d == deep_ && wishes ? *wishes : TileWishes{}; }

  ConvDesc conv_;
  ConvRole role_;
  const Epilogue& epilogue_;
  ConvPassOptions options_;
  Direction d_, h_;
  bool deep_;  // 3-D: cut along D first
  int parts_;
  double budget_bytes_;  // for v of a tile
};

}  // namespace petaflow
