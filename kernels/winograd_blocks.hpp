// How Winograd's convolutions cut a tile into blocks, and how they fill and empty them: the transforms of sources,
// gradients and results on the patches of planes.
//
// A block is some planes times some patches of a plane.  Its source is transformed to V (position, plane, patch,
// channel), where the planes are those that the taps in depth reach; rows (plane, patch) of one position are then rows
// of a matrix, and a tap in depth shifts them by whole planes.  The matrices hold numbers of 32 bits: f32, or pairs of
// bf16 along what their product sums over, which are two channels, or two patches where weights' gradients are summed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/conv.hpp"
#include "kernels/register_blocks.hpp"
#include "kernels/winograd_dilation.hpp"
#include "kernels/winograd_phases.hpp"
#include "kernels/winograd_transforms.hpp"

namespace petaflow::winograd {

using lanes::kHeld;
using lanes::kLanes;
using lanes::Number;
using lanes::unrolled;

/// Depth: target o reads sources o - pad ... o - pad + taps - 1.
struct Depth {
  std::int64_t sources, targets, taps, pad, source_stride, target_stride;
};

/// Taps in each direction of the plane, of a phase where there are several.
inline std::int64_t taps_of(const ConvDesc& desc) { return ceil_div(desc.geometry.kernel.h, desc.geometry.stride.h); }

/// The edge of a layer's patches: large ones where they take fewer products, of many channels in f32 (384 to 256
/// channels on 96 x 576 pixels, Zen 4, two threads, forward, backward data and weights: 155, 155 and 174 to 129, 130
/// and 147 ms).  With fewer channels, whose transforms take more of the time, results stay more exact (not measured).
inline int edge_for(const ConvDesc& desc) {
  constexpr std::int64_t kMany = 256;
  const ConvGeometry& g = desc.geometry;
  const int usual = edge_of(taps_of(desc));
  const bool planar = g.kernel == Extent{1, 3, 3} && g.stride == Extent{1, 1, 1} && desc.out.d == 1;
  if (!planar || desc.type != DType::kF32) return usual;
  if (desc.transforms) return *desc.transforms == Transforms::kInLargePatches ? kLargeEdge : usual;
  if (std::min(desc.in_channels, desc.out_channels) < kMany) return usual;
  const auto products = [&](int edge) {
    const std::int64_t patch = edge - 2, r = g.dilation.h;
    return ceil_div(desc.out.h / r, patch) * ceil_div(desc.out.w / r, patch) * edge * edge;
  };
  // Eight ninths of the products were slower (2,048 to 256 channels, dilation 6 on 24 x 36 pixels: forward 37 to 44
  // ms).
  return 8 * products(kLargeEdge) < 7 * products(usual) ? kLargeEdge : usual;
}

/// A pass over one tile, seen as a correlation without stride of a source with C channels that writes a target with K
/// channels, in whose planes target o reads sources o ... o + taps - 1 behind the padding.  With stride 2, x has four
/// phases, and four times its channels.
struct Problem {
  Depth d;
  std::int64_t taps;                  // in each direction of the plane
  std::int64_t edge;                  // of a patch
  std::int64_t target_h, target_w;    // from the first pixel of the first patch to the last one of the last
  std::vector<Pixels> reads, writes;  // what stands side by side as channels of the source, and of the target
  Strides source_strides, target_strides;
  // Dilated, each column of phases is a sample: so many follow each other (the strides' n) in each of the tensor's own.
  std::int64_t columns = 1;
  std::int64_t samples;                             // all of them
  std::int64_t source_samples_n, target_samples_n;  // elements between the tensor's own
  std::int64_t sources, targets;                    // channels
  std::int64_t zero_row = -1, zero_column = -1;     // positions where phases of odd taps have no product; -1: none

  /// Forward: from x to y; backward data: from y to x with reversed taps.
  Problem(const ConvDesc& whole, bool backward) : Problem(whole, backward, edge_for(whole)) {}
  Problem(const ConvDesc& whole, bool backward, std::int64_t edge_of_patch)
      : taps(taps_of(whole)), edge(edge_of_patch) {
    const ConvDesc desc = is_dilated(whole) ? phases_of_sample(whole) : whole;
    const ConvGeometry& g = desc.geometry;
    const std::int64_t stride = g.stride.h;
    Strides xs = desc.x_strides, ys = desc.y_strides;
    xs.h *= stride, xs.w *= stride;
    std::vector<Pixels> x = phases_of(desc);
    Pixels y{desc.out.h, desc.out.w, 0, 0, 0};
    const auto phases = std::ssize(x);
    if (phases > 1 && g.kernel.h % 2 == 1) {
      const auto zero = [&](std::int64_t pad) { return backward && !begins_with_zero(pad) ? 0 : edge - 1; };
      zero_row = zero(g.pad_begin.h), zero_column = zero(g.pad_begin.w);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i].zero_row = kFirstTaps[i][0] == 1 ? zero_row : -1;
        x[i].zero_column = kFirstTaps[i][1] == 1 ? zero_column : -1;
      }
    }
    target_h = y.h, target_w = y.w;
    if (backward) {
      const Pixels& first = x[phases > 1 ? kEvenTaps : 0];
      y.pad_h = taps - 1 - first.pad_h, y.pad_w = taps - 1 - first.pad_w;
      target_h = target_w = 0;
      for (Pixels& phase : x) {
        phase.pad_h = phase.pad_w = 0;
        target_h = std::max(target_h, phase.h), target_w = std::max(target_w, phase.w);
      }
    }
    const std::int64_t kd = g.kernel.d, pad = g.pad_begin.d;
    d = backward ? Depth{desc.out.d, desc.in.d, kd, kd - 1 - pad, ys.d, xs.d}
                 : Depth{desc.in.d, desc.out.d, kd, pad, xs.d, ys.d};
    if (is_dilated(whole)) columns = desc.n;
    samples = whole.n * columns;
    source_samples_n = (backward ? whole.y_strides : whole.x_strides).n;
    target_samples_n = (backward ? whole.x_strides : whole.y_strides).n;
    source_strides = backward ? ys : xs;
    target_strides = backward ? xs : ys;
    sources = backward ? desc.out_channels : phases * desc.in_channels;
    targets = backward ? phases * desc.in_channels : desc.out_channels;
    reads = {y}, writes = std::move(x);
    if (!backward) std::swap(reads, writes);
  }

  std::int64_t positions() const { return edge * edge; }
  /// Of the weights or their gradient, transformed.
  std::int64_t transformed_bytes() const { return 4 * positions() * d.taps * sources * targets; }
  std::int64_t patch() const { return edge + 1 - taps; }  // targets of a patch in one direction
  std::int64_t patches_h() const { return ceil_div(target_h, patch()); }
  std::int64_t patches_w() const { return ceil_div(target_w, patch()); }
  /// For the log.
  std::string phases_text() const {
    const std::int64_t phases = columns > 1 ? columns * columns : std::ssize(reads) * std::ssize(writes);
    return phases > 1 ? fmt::format(" of {} phases", phases) : "";
  }
  /// Phases of x whose product at a position is not zero.
  PhaseRange phases_at(std::int64_t position) const {
    if (zero_row < 0) return {0, std::ssize(reads) * std::ssize(writes)};
    return phases_with_taps(position / edge == zero_row, position % edge == zero_column);
  }
};

/// Content of a number: one of the two is 2 in bf16.
struct Packing {
  int channels = 1, patches = 1;
};
template <class T>
constexpr Packing packing(bool of_patches) {
  return of_patches ? Packing{1, kHeld<T>} : Packing{kHeld<T>, 1};
}

/// Numbers between the rows of matrices: no multiple of 256 bytes, which share few places of the L1d cache.
inline std::int64_t row_stride(std::int64_t numbers) { return numbers * 4 % 256 == 0 ? numbers + kLanes : numbers; }

/// Positions lie apart by no multiple of a page, so that their lines do not compete for the same places of a cache.
inline std::int64_t off_page(std::int64_t numbers) { return ceil_div(numbers, 1024) * 1024 + 2 * kLanes; }

/// Planes [plane, plane + planes) of run `run`, patches [patch, patch + patches) of each of them, in `rows` rows of
/// numbers.
struct Block {
  std::int64_t run, plane, planes, patch, patches, rows;
};

/// V and the target's patches are written once and read once: they may live in L2 and L3.
inline constexpr std::int64_t kBlockBytes = std::int64_t{3} << 20;

/// How a tile is cut into blocks.  Where the taps have no depth, planes of several samples may share a block.
struct Blocks {
  std::int64_t positions;                        // of a patch
  std::int64_t runs, run_planes, plane_patches;  // planes that follow each other, and patches of each
  std::int64_t planes, patches;                  // of a block, at most
  std::int64_t v_stride, m_stride;               // numbers between the rows of V and of the target's patches
  std::int64_t v_position, m_position;           // and between their positions
  int row_patches;                               // patches of a row

  /// @param threads  that divide the blocks among themselves
  Blocks(const Problem& p, const Packing& packing, std::int64_t threads)
      : Blocks(p, packing, threads, rows_of(p, packing)) {}

  /// @param rows  (plane, patch) of a block, about
  Blocks(const Problem& p, const Packing& packing, std::int64_t threads, std::int64_t rows)
      : positions(p.positions()),
        v_stride(row_stride(p.sources / packing.channels)),
        m_stride(row_stride(p.targets)),
        row_patches(packing.patches) {
    const bool deep = p.d.taps > 1;
    runs = deep ? p.samples : 1;
    run_planes = deep ? p.d.targets : p.samples * p.d.targets;
    plane_patches = p.patches_h() * p.patches_w();
    planes = std::min(run_planes, std::max<std::int64_t>(deep ? 8 : 1, rows / plane_patches));
    planes = ceil_div(run_planes, ceil_div(run_planes, planes));
    if (bytes_of(p) > kBlockBytes) {  // few blocks: as many for each thread
      const std::int64_t blocks = ceil_div(ceil_div(run_planes, planes), threads) * threads;
      planes = ceil_div(run_planes, std::min(blocks, run_planes));
    }
    patches = std::clamp<std::int64_t>(rows / planes, 1, plane_patches);
    patches = ceil_div(plane_patches, ceil_div(plane_patches, patches));
    patches = std::min(plane_patches, ceil_div(patches, row_patches) * row_patches);
    v_position = off_page((planes + p.d.taps - 1) * ceil_div(patches, row_patches) * v_stride);
    m_position = off_page(planes * ceil_div(patches, row_patches) * m_stride);
  }

  /// Of V and of the target's patches of a block.  What is multiplied with a block, or added to, is read again for each
  /// of them: a block is as large, up to a limit, where that exceeds the caches (512 to 768 channels, 5 x 5 taps,
  /// stride 2, 48 x 48 pixels: gradient of weights 333 to 209 ms, forward 132 to 117; the limit: 16 MB to 64 took 2 %
  /// off DeepLab).  Not measured with taps in depth.
  static std::int64_t bytes_of(const Problem& p) {
    constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
    return p.d.taps == 1 ? std::clamp(p.transformed_bytes(), kBlockBytes, kMostBytes) : kBlockBytes;
  }
  static std::int64_t rows_of(const Problem& p, const Packing& packing) {
    const std::int64_t row = row_stride(p.sources / packing.channels) + row_stride(p.targets);
    return std::max<std::int64_t>(lanes::kPoints, bytes_of(p) * packing.patches / (p.positions() * 4 * row));
  }

  /// Where the target's patches begin, behind V, and the size of both.
  std::int64_t m_begin() const { return positions * v_position; }
  std::int64_t numbers() const { return m_begin() + positions * m_position; }
  std::int64_t count() const { return runs * ceil_div(run_planes, planes) * ceil_div(plane_patches, patches); }
  Block operator[](std::int64_t i) const {
    const std::int64_t across = ceil_div(plane_patches, patches), along = ceil_div(run_planes, planes);
    const std::int64_t patch = i % across * patches, plane = i / across % along * planes;
    const std::int64_t some = std::min(patches, plane_patches - patch);
    return {i / across / along, plane, std::min(planes, run_planes - plane), patch, some, ceil_div(some, row_patches)};
  }
};

/// The plane of a tensor: a pointer to its first pixel and its extents.
template <class T>
struct Plane {
  T* data;
  std::int64_t h, w, h_stride, w_stride;
};

/// `pixels` of plane `plane` of a run in the target, or in the source, where the plane may lie outside: data is null
/// then.
template <class T>
Plane<T> target_plane(const Problem& p, T* target, std::int64_t run, std::int64_t plane, const Pixels& pixels) {
  const std::int64_t sample = p.d.taps > 1 ? run : plane / p.d.targets;
  const std::int64_t d = p.d.taps > 1 ? plane : plane % p.d.targets;
  const Strides& strides = p.target_strides;
  const std::int64_t begin = sample / p.columns * p.target_samples_n + sample % p.columns * strides.n + d * strides.d;
  return {target + pixels.first + begin, pixels.h, pixels.w, strides.h, strides.w};
}
template <class T>
Plane<T> source_plane(const Problem& p, T* source, std::int64_t run, std::int64_t plane, const Pixels& pixels) {
  const std::int64_t sample = p.d.taps > 1 ? run : plane / p.d.targets;
  const std::int64_t d = (p.d.taps > 1 ? plane : plane % p.d.targets) - p.d.pad;
  const Strides& strides = p.source_strides;
  const std::int64_t begin = sample / p.columns * p.source_samples_n + sample % p.columns * strides.n + d * strides.d;
  T* data = d < 0 || d >= p.d.sources ? nullptr : source + pixels.first + begin;
  return {data, pixels.h, pixels.w, strides.h, strides.w};
}

/// Loads kCount neighbouring pixels of a row; those outside of the plane are zero.
template <class T, int kCount>
KOKKOS_FORCEINLINE_FUNCTION void load_row(const Plane<T>& plane, std::int64_t h, std::int64_t w, std::int64_t c,
                                          Floats (&to)[kCount]) {
  if (h < 0 || h >= plane.h) {
    for (Floats& pixel : to) pixel = Floats{};
    return;
  }
  const T* from = plane.data + h * plane.h_stride + c;
  if (w >= 0 && w + kCount <= plane.w) {
    unrolled<kCount>([&](auto i) { lanes::load(from + (w + i) * plane.w_stride, to[i]); });
  } else {
    unrolled<kCount>([&](auto i) {
      to[i] = Floats{};
      if (w + i >= 0 && w + i < plane.w) lanes::load(from + (w + i) * plane.w_stride, to[i]);
    });
  }
}

/// Where the patches of a row begin in a plane; one that does not exist lies above it.
template <int kPatches>
struct Corners {
  std::int64_t h[kPatches], w[kPatches];

  Corners(const Problem& p, const Block& block, std::int64_t row, const Pixels& pixels) {
    const std::int64_t across = p.patches_w(), size = p.patch();
    for (int n = 0; n < kPatches; ++n) {
      const std::int64_t patch = row * kPatches + n;
      h[n] = patch < block.patches ? (block.patch + patch) / across * size - pixels.pad_h : -p.edge;
      w[n] = (block.patch + patch) % across * size - pixels.pad_w;
    }
  }
};

/// V of the planes that a block reads: those of its targets and, with taps in depth, d.taps - 1 more; rows of kPatches
/// patches, for products in P.
/// @tparam kParts  phases of the source; where there are four, positions without products are left out
template <int kEdge, int kPatches, class P, int kParts, class T>
void transform_sources(const Problem& p, const Blocks& blocks, const Block& block, T* source, Number<P>* v) {
  using Stored = std::conditional_t<kPatches == 1, P, Number<P>>;     // pairs of channels are neighbours anyway
  constexpr int kStored = std::is_same_v<Stored, Number<P>> ? 1 : 2;  // in a number
  const std::int64_t channels = p.sources / kParts;
  for (std::int64_t i = 0; i < block.planes + p.d.taps - 1; ++i) {
    Number<P>* rows = v + i * block.rows * blocks.v_stride;
    for (std::size_t phase = 0; phase < kParts; ++phase) {
      const Pixels& pixels = p.reads[phase];
      const Plane<T> plane = source_plane(p, source, block.run, block.plane + i, pixels);
      if (plane.data == nullptr) {
        for (std::int64_t position = 0; position < blocks.positions; ++position)
          std::fill_n(rows + position * blocks.v_position, block.rows * blocks.v_stride, Number<P>{});
        continue;
      }
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const Corners<kPatches> at(p, block, r, pixels);
        for (std::int64_t c = 0; c < channels; c += kLanes) {
          auto* to =
              reinterpret_cast<Stored*>(rows + r * blocks.v_stride) + static_cast<std::int64_t>(phase) * channels + c;
          both_ways<kEdge, kEdge, kPatches>(
              [&](int n, int row, auto& values) { load_row(plane, at.h[n] + row, at.w[n], c, values); },
              transform_source<kEdge>,
              [&](int column, const auto& values) {
                if (kParts > 1 && column == pixels.zero_column) return;
                unrolled<kEdge>([&](auto row) {
                  if (kParts > 1 && row == pixels.zero_row) return;
                  store_number(to + (row * kEdge + column) * blocks.v_position * kStored, values, row);
                });
              });
        }
      }
    }
  }
}

/// Writes the targets of a block from the sums m (position, plane, patch, channel).
/// @tparam kParts  phases of the target; where there are four, sums at positions without products are 0
template <int kEdge, int kPatch, int kParts, class T>
void write_targets(const Problem& p, const Blocks& blocks, const Block& block, const float* m, T* target) {
  const std::int64_t channels = p.targets / kParts;
  for (std::int64_t i = 0; i < block.planes; ++i) {
    for (std::size_t phase = 0; phase < kParts; ++phase) {
      const Pixels& pixels = p.writes[phase];
      const Plane<T> plane = target_plane(p, target, block.run, block.plane + i, pixels);
      for (std::int64_t t = 0; t < block.patches; ++t) {
        const Corners<1> at(p, block, t, pixels);
        const std::int64_t h = at.h[0], w = at.w[0];
        const int rows = static_cast<int>(std::min<std::int64_t>(kPatch, plane.h - h)),
                  columns = static_cast<int>(std::min<std::int64_t>(kPatch, plane.w - w));
        for (std::int64_t c = 0; c < channels; c += kLanes) {
          const float* from =
              m + (i * block.patches + t) * blocks.m_stride + static_cast<std::int64_t>(phase) * channels + c;
          T* to = plane.data + h * plane.h_stride + w * plane.w_stride + c;
          both_ways<kEdge, kPatch, 1>(
              [&](int, int row, auto& in) {
                unrolled<kEdge>([&](auto column) {
                  if (kParts > 1 && (row == pixels.zero_row || column == pixels.zero_column)) {
                    in[column] = Floats{};
                  } else {
                    lanes::load(from + (row * kEdge + column) * blocks.m_position, in[column]);
                  }
                });
              },
              transform_result<kEdge, kPatch>,
              [&](int column, const auto& out) {
                if (column >= columns) return;
                for (int row = 0; row < rows; ++row)
                  lanes::store(to + row * plane.h_stride + column * plane.w_stride, kLanes, out[0][row]);
              });
        }
      }
    }
  }
}

/// The patches of the output gradient, transformed: D (position, plane, row of kPatches patches, channel).
template <int kEdge, int kPatch, int kPatches, class P, class T>
void transform_gradients(const Problem& p, const Blocks& blocks, const Block& block, T* target, Number<P>* m) {
  const Pixels& pixels = p.writes.front();
  for (std::int64_t i = 0; i < block.planes; ++i) {
    const Plane<T> plane = target_plane(p, target, block.run, block.plane + i, pixels);
    for (std::int64_t r = 0; r < block.rows; ++r) {
      const Corners<kPatches> at(p, block, r, pixels);
      for (std::int64_t c = 0; c < p.targets; c += kLanes) {
        Number<P>* to = m + (i * block.rows + r) * blocks.m_stride + c;
        both_ways<kPatch, kEdge, kPatches>(
            [&](int n, int row, auto& in) { load_row(plane, at.h[n] + row, at.w[n], c, in); },
            transform_gradient<kEdge, kPatch>,
            [&](int column, const auto& out) {
              unrolled<kEdge>(
                  [&](auto row) { store_number(to + (row * kEdge + column) * blocks.m_position, out, row); });
            });
      }
    }
  }
}

}  // namespace petaflow::winograd
