// How Winograd's convolutions cut a box into blocks, and how they fill and empty them: the transforms of sources,
// gradients and results on the tiles of planes.
//
// A block is some planes times some tiles of a plane.  Its source is transformed to V (position, plane, tile, channel),
// where the planes are those that the taps in depth reach; rows (plane, tile) of one position are then rows of a
// matrix, and a tap in depth shifts them by whole planes.
#pragma once

#include <algorithm>

#include "kernels/conv.hpp"
#include "kernels/register_blocks.hpp"
#include "kernels/winograd_transforms.hpp"

namespace petaflow::winograd {

using lanes::kLanes;
using lanes::unrolled;

/// One direction: target o reads sources o - pad ... o - pad + taps - 1.
struct Axis {
  std::int64_t sources, targets, taps, pad, source_stride, target_stride;
};

/// A pass over one box, seen as a correlation of a source with C channels that writes a target with K channels.
struct Problem {
  Axis d, h, w;
  std::int64_t samples, source_n, target_n;
  std::int64_t sources, targets;  // channels

  /// Forward: from x to y; backward data: from y to x with reversed taps.
  Problem(const ConvDesc& desc, bool backward) {
    const ConvGeometry& g = desc.geometry;
    const Strides &xs = desc.x_strides, &ys = desc.y_strides;
    const auto axis = [&](std::int64_t in, std::int64_t out, std::int64_t taps, std::int64_t pad, std::int64_t x_stride,
                          std::int64_t y_stride) {
      return backward ? Axis{out, in, taps, taps - 1 - pad, y_stride, x_stride}
                      : Axis{in, out, taps, pad, x_stride, y_stride};
    };
    d = axis(desc.in.d, desc.out.d, g.kernel.d, g.pad_begin.d, xs.d, ys.d);
    h = axis(desc.in.h, desc.out.h, g.kernel.h, g.pad_begin.h, xs.h, ys.h);
    w = axis(desc.in.w, desc.out.w, g.kernel.w, g.pad_begin.w, xs.w, ys.w);
    samples = desc.n;
    source_n = backward ? ys.n : xs.n;
    target_n = backward ? xs.n : ys.n;
    sources = backward ? desc.out_channels : desc.in_channels;
    targets = backward ? desc.in_channels : desc.out_channels;
  }

  std::int64_t tile() const { return kEdge + 1 - h.taps; }  // targets of a tile in one direction
  std::int64_t tiles_h() const { return ceil_div(h.targets, tile()); }
  std::int64_t tiles_w() const { return ceil_div(w.targets, tile()); }
};

/// Floats between the rows of matrices of channels: no multiple of 256 bytes, which share few places of the first
/// cache.
inline std::int64_t row_stride(std::int64_t channels) { return channels * 4 % 256 == 0 ? channels + kLanes : channels; }

/// Planes [plane, plane + planes) of run `run`, tiles [tile, tile + tiles) of each of them.
struct Block {
  std::int64_t run, plane, planes, tile, tiles;
};

/// How a box is cut into blocks.  Where the taps have no depth, planes of several samples may share a block.
struct Blocks {
  std::int64_t runs, run_planes, plane_tiles;  // planes that follow each other, and tiles of each
  std::int64_t planes, tiles;                  // of a block, at most
  std::int64_t v_position, m_position;         // floats of a position of V and of the target's tiles

  explicit Blocks(const Problem& p) {
    // V and the target's tiles are written once and read once: they may live in the second and third cache.
    constexpr std::int64_t kBytes = std::int64_t{3} << 20;
    const bool deep = p.d.taps > 1;
    runs = deep ? p.samples : 1;
    run_planes = deep ? p.d.targets : p.samples * p.d.targets;
    plane_tiles = p.tiles_h() * p.tiles_w();
    const std::int64_t rows = std::max<std::int64_t>(
        lanes::kPoints, kBytes / (kPositions * 4 * (row_stride(p.sources) + row_stride(p.targets))));
    planes = std::min(run_planes, std::max<std::int64_t>(deep ? 8 : 1, rows / plane_tiles));
    planes = ceil_div(run_planes, ceil_div(run_planes, planes));
    tiles = std::clamp<std::int64_t>(rows / planes, 1, plane_tiles);
    tiles = ceil_div(plane_tiles, ceil_div(plane_tiles, tiles));
    // Positions lie apart by no multiple of a page, so that their lines do not compete for the same places.
    const auto off_page = [](std::int64_t floats) { return ceil_div(floats, 1024) * 1024 + 2 * kLanes; };
    v_position = off_page((planes + p.d.taps - 1) * tiles * row_stride(p.sources));
    m_position = off_page(planes * tiles * row_stride(p.targets));
  }

  std::int64_t floats() const { return kPositions * (v_position + m_position); }
  std::int64_t count() const { return runs * ceil_div(run_planes, planes) * ceil_div(plane_tiles, tiles); }
  Block operator[](std::int64_t i) const {
    const std::int64_t across = ceil_div(plane_tiles, tiles), along = ceil_div(run_planes, planes);
    const std::int64_t tile = i % across * tiles, plane = i / across % along * planes;
    return {i / across / along, plane, std::min(planes, run_planes - plane), tile, std::min(tiles, plane_tiles - tile)};
  }
};

/// The plane of a tensor: a pointer to its first pixel and its extents.
struct Plane {
  float* data;
  std::int64_t h, w, h_stride, w_stride;
};

/// Plane `plane` of a run in the target, or in the source, where it may lie outside: data is null then.
inline Plane target_plane(const Problem& p, float* target, std::int64_t run, std::int64_t plane) {
  const std::int64_t sample = p.d.taps > 1 ? run : plane / p.d.targets;
  const std::int64_t d = p.d.taps > 1 ? plane : plane % p.d.targets;
  return {target + sample * p.target_n + d * p.d.target_stride, p.h.targets, p.w.targets, p.h.target_stride,
          p.w.target_stride};
}
inline Plane source_plane(const Problem& p, float* source, std::int64_t run, std::int64_t plane) {
  const std::int64_t sample = p.d.taps > 1 ? run : plane / p.d.targets;
  const std::int64_t d = (p.d.taps > 1 ? plane : plane % p.d.targets) - p.d.pad;
  float* data = d < 0 || d >= p.d.sources ? nullptr : source + sample * p.source_n + d * p.d.source_stride;
  return {data, p.h.sources, p.w.sources, p.h.source_stride, p.w.source_stride};
}

/// Loads kCount neighbouring pixels of a row; those outside of the plane are zero.
template <int kCount>
KOKKOS_FORCEINLINE_FUNCTION void load_row(const Plane& plane, std::int64_t h, std::int64_t w, std::int64_t c,
                                          Floats (&to)[kCount]) {
  if (h < 0 || h >= plane.h) {
    for (Floats& pixel : to) pixel = Floats{};
    return;
  }
  const float* from = plane.data + h * plane.h_stride + c;
  if (w >= 0 && w + kCount <= plane.w) {
    unrolled<kCount>([&](auto i) { lanes::load(from + (w + i) * plane.w_stride, to[i]); });
  } else {
    unrolled<kCount>([&](auto i) {
      to[i] = Floats{};
      if (w + i >= 0 && w + i < plane.w) lanes::load(from + (w + i) * plane.w_stride, to[i]);
    });
  }
}

/// V of the planes that a block reads: those of its targets and, with taps in depth, d.taps - 1 more.
inline void transform_sources(const Problem& p, const Blocks& blocks, const Block& block, float* source, float* v) {
  const std::int64_t stride = row_stride(p.sources), tile_size = p.tile(), across = p.tiles_w();
  for (std::int64_t i = 0; i < block.planes + p.d.taps - 1; ++i) {
    const Plane plane = source_plane(p, source, block.run, block.plane + i);
    float* rows = v + i * block.tiles * stride;
    if (plane.data == nullptr) {
      for (int position = 0; position < kPositions; ++position)
        std::fill_n(rows + position * blocks.v_position, block.tiles * stride, 0.0F);
      continue;
    }
    for (std::int64_t t = 0; t < block.tiles; ++t) {
      const std::int64_t h = (block.tile + t) / across * tile_size - p.h.pad,
                         w = (block.tile + t) % across * tile_size - p.w.pad;
      for (std::int64_t c = 0; c < p.sources; c += kLanes) {
        float* to = rows + t * stride + c;
        both_ways<kEdge, kEdge>([&](int row, auto& pixels) { load_row(plane, h + row, w, c, pixels); },
                                transform_source,
                                [&](int column, const auto& values) {
                                  unrolled<kEdge>([&](auto row) {
                                    lanes::store(to + (row * kEdge + column) * blocks.v_position, kLanes, values[row]);
                                  });
                                });
      }
    }
  }
}

/// Writes the targets of a block from the sums m (position, plane, tile, channel).
template <int kTile>
void write_targets(const Problem& p, const Blocks& blocks, const Block& block, const float* m, float* target) {
  const std::int64_t stride = row_stride(p.targets), across = p.tiles_w();
  for (std::int64_t i = 0; i < block.planes; ++i) {
    const Plane plane = target_plane(p, target, block.run, block.plane + i);
    for (std::int64_t t = 0; t < block.tiles; ++t) {
      const std::int64_t h = (block.tile + t) / across * kTile, w = (block.tile + t) % across * kTile;
      const int rows = static_cast<int>(std::min<std::int64_t>(kTile, plane.h - h)),
                columns = static_cast<int>(std::min<std::int64_t>(kTile, plane.w - w));
      for (std::int64_t c = 0; c < p.targets; c += kLanes) {
        const float* from = m + (i * block.tiles + t) * stride + c;
        float* to = plane.data + h * plane.h_stride + w * plane.w_stride + c;
        both_ways<kEdge, kTile>(
            [&](int row, auto& in) {
              unrolled<kEdge>(
                  [&](auto column) { lanes::load(from + (row * kEdge + column) * blocks.m_position, in[column]); });
            },
            transform_result<kTile>,
            [&](int column, const auto& out) {
              if (column >= columns) return;
              for (int row = 0; row < rows; ++row)
                lanes::store(to + row * plane.h_stride + column * plane.w_stride, kLanes, out[row]);
            });
      }
    }
  }
}

/// The tiles of the output gradient, transformed: D (position, plane, tile, channel).
template <int kTile>
void transform_gradients(const Problem& p, const Blocks& blocks, const Block& block, float* target, float* m) {
  const std::int64_t stride = row_stride(p.targets), across = p.tiles_w();
  for (std::int64_t i = 0; i < block.planes; ++i) {
    const Plane plane = target_plane(p, target, block.run, block.plane + i);
    for (std::int64_t t = 0; t < block.tiles; ++t) {
      const std::int64_t h = (block.tile + t) / across * kTile, w = (block.tile + t) % across * kTile;
      for (std::int64_t c = 0; c < p.targets; c += kLanes) {
        float* to = m + (i * block.tiles + t) * stride + c;
        both_ways<kTile, kEdge>([&](int row, auto& in) { load_row(plane, h + row, w, c, in); },
                                transform_gradient<kTile>,
                                [&](int column, const auto& out) {
                                  unrolled<kEdge>([&](auto row) {
                                    lanes::store(to + (row * kEdge + column) * blocks.m_position, kLanes, out[row]);
                                  });
                                });
      }
    }
  }
}

}  // namespace petaflow::winograd
