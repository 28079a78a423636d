// Tiles cut into pieces of few pixels, for gradients of weights by a library that sums all pixels of a call in f32:
// sums of n numbers are off by 1.8e-8 sqrt(n).
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow {

/// Rows of a plane, planes of a sample or samples of a tile.
struct ConvPiece {
  ConvDesc desc;
  std::int64_t x = 0, y = 0;  // elements of x and y before its own
};

/// Outputs [begin, end) of one direction: the rows of x that they read, from `skipped` on, and what they read outside.
struct PieceRows {
  std::int64_t in, out, pad_begin, pad_end, skipped;

  PieceRows(std::int64_t rows, std::int64_t kernel, std::int64_t stride, std::int64_t dilation, std::int64_t pad,
            std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * stride - pad, behind = (end - 1) * stride - pad + (kernel - 1) * dilation + 1;
    skipped = std::max<std::int64_t>(0, first);
    in = std::min(rows, behind) - skipped;
    out = end - begin;
    pad_begin = skipped - first;
    pad_end = behind - skipped - in;
  }
};

/// Pieces of `most` pixels of y or fewer, but a row at least; those that read nothing but zeros are left out.
inline std::vector<ConvPiece> pieces_of(const ConvDesc& tile, std::int64_t most) {
  const ConvGeometry& g = tile.geometry;
  if (tile.n * tile.out.volume() <= most) return {{tile}};
  // Units of so many pixels that fit, in parts of nearly equal size.
  const auto fit = [&](std::int64_t units, std::int64_t pixels) {
    return ceil_div(units, ceil_div(units, std::clamp<std::int64_t>(most / pixels, 1, units)));
  };
  const std::int64_t rows = fit(tile.out.h, tile.out.w);
  const std::int64_t planes = rows < tile.out.h ? 1 : fit(tile.out.d, tile.out.h * tile.out.w);
  const std::int64_t samples = planes < tile.out.d || rows < tile.out.h ? 1 : fit(tile.n, tile.out.volume());
  std::vector<ConvPiece> pieces;
  for (std::int64_t n = 0; n < tile.n; n += samples) {
    for (std::int64_t d = 0; d < tile.out.d; d += planes) {
      const PieceRows in_d(tile.in.d, g.kernel.d, g.stride.d, g.dilation.d, g.pad_begin.d, d,
                           std::min(tile.out.d, d + planes));
      for (std::int64_t h = 0; h < tile.out.h; h += rows) {
        const PieceRows in_h(tile.in.h, g.kernel.h, g.stride.h, g.dilation.h, g.pad_begin.h, h,
                             std::min(tile.out.h, h + rows));
        if (in_d.in <= 0 || in_h.in <= 0) continue;
        ConvPiece piece{tile};
        ConvDesc& desc = piece.desc;
        desc.n = std::min(samples, tile.n - n);
        desc.in.d = in_d.in, desc.in.h = in_h.in;
        desc.out.d = in_d.out, desc.out.h = in_h.out;
        desc.geometry.pad_begin.d = in_d.pad_begin, desc.geometry.pad_begin.h = in_h.pad_begin;
        desc.geometry.pad_end.d = in_d.pad_end, desc.geometry.pad_end.h = in_h.pad_end;
        piece.x = n * tile.x_strides.n + in_d.skipped * tile.x_strides.d + in_h.skipped * tile.x_strides.h;
        piece.y = n * tile.y_strides.n + d * tile.y_strides.d + h * tile.y_strides.h;
        pieces.push_back(piece);
      }
    }
  }
  return pieces;
}

/// The gradients of weights of all tiles in pieces that one call sums: few different shapes.
struct WeightPieces {
  struct Piece {
    std::size_t shape;  // index into shapes
    std::int64_t x, y;  // elements of x and y before its own
  };
  std::vector<ConvDesc> shapes;
  std::vector<std::vector<Piece>> tiles;

  explicit WeightPieces(std::span<const ConvDesc> whole) {
    for (const ConvDesc& tile : whole) {
      // In bf16 the numbers themselves are less precise than any sum; the parts of f32 numbers (split3) are not, but
      // would be refused in pieces at the borders of 3-D layers.
      constexpr std::int64_t kRows = 8, kFewest = 128, kMost = 1024;  // fewer rows read many beside their own
      const std::int64_t most = tile.type == DType::kF32 ? std::clamp(kRows * tile.out.w, kFewest, kMost)
                                                         : std::numeric_limits<std::int64_t>::max();
      tiles.emplace_back();
      for (const ConvPiece& piece : pieces_of(tile, most)) {
        const auto same = [&](const ConvDesc& d) { return same_tile(d, piece.desc); };
        const auto found = std::ranges::find_if(shapes, same) - shapes.begin();
        if (found == std::ssize(shapes)) shapes.push_back(piece.desc);
        tiles.back().push_back({static_cast<std::size_t>(found), piece.x, piece.y});
      }
    }
    if (shapes.empty()) shapes.push_back(whole.front());  // a kernel is made for at least one
  }
};

}  // namespace petaflow
