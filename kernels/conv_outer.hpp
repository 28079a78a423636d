// Portable backward-weights convolution: outer products of input and output-gradient channels, summed over pixels for
// blocks of channels x channels that stay in registers.
#pragma once

#include "kernels/conv_gather.hpp"

namespace petaflow::portable {

/// Sums over the rows of part r = task / shares into the part's own copy of the gradient, pieces (group, block of
/// output channels, tap, block of input channels) of share task % shares.  Nothing is shared between tasks, and the
/// caller adds the parts in their order, so that the result depends on (parts, shares) alone.
template <class T>
struct Outer {
  ConvDesc desc;
  PackedOrder order;  // sources: input channels, targets: output channels
  std::int64_t parts, shares;
  std::int64_t rows_per_chunk;  // rows whose pixels stay in cache while all pieces pass over them
  const T* x;
  const T* dy;
  float* sum;  // += where parts is 1, otherwise parts copies of order.elements(), =

  static constexpr std::int64_t kChunkPixels = 128;

  std::int64_t source_blocks() const { return (order.sources + lanes::kPoints - 1) / lanes::kPoints; }
  std::int64_t pieces() const { return order.groups * order.blocks() * order.taps * source_blocks(); }
  std::int64_t rows() const { return desc.n * desc.out.d * desc.out.h; }
  std::int64_t chunks() const { return (rows() + rows_per_chunk - 1) / rows_per_chunk; }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t task) const {
    const std::int64_t part = task / shares, share = task % shares;
    const std::int64_t per_group = order.blocks() * order.taps,
                       blocks = (order.sources + lanes::kPoints - 1) / lanes::kPoints;
    const std::int64_t pieces = order.groups * per_group * blocks;
    const std::int64_t rows = desc.n * desc.out.d * desc.out.h, chunks = (rows + rows_per_chunk - 1) / rows_per_chunk;
    const std::int64_t first_piece = pieces * share / shares, last_piece = pieces * (share + 1) / shares;
    bool fresh = parts > 1;
    for (std::int64_t chunk = chunks * part / parts; chunk < chunks * (part + 1) / parts; ++chunk) {
      const std::int64_t begin = chunk * rows_per_chunk,
                         end = begin + rows_per_chunk < rows ? begin + rows_per_chunk : rows;
      for (std::int64_t piece = first_piece; piece < last_piece; ++piece) {
        const std::int64_t strip = piece / blocks, at = piece % blocks, c = order.sources * at / blocks;
        const std::int64_t group = strip / per_group, block = strip % per_group / order.taps, tap = strip % order.taps;
        Piece p;
        p.td = tap / (desc.geometry.kernel.h * desc.geometry.kernel.w);
        p.th = tap / desc.geometry.kernel.w % desc.geometry.kernel.h;
        p.tw = tap % desc.geometry.kernel.w;
        p.x = x + group * order.sources + c;
        p.dy = dy + group * order.targets + block * lanes::kBlock;
        p.channels = order.targets - block * lanes::kBlock;
        p.begin = begin;
        p.end = end;
        p.fresh = fresh;
        p.sum = sum + (parts > 1 ? part * order.groups * order.taps * order.sources * order.padded() : 0) +
                order.block_begin(group, block) + (tap * order.sources + c) * order.width(block);
        run_vectors<lanes::kVectors>(p, static_cast<int>(order.width(block) / lanes::kLanes),
                                     static_cast<int>(order.sources * (at + 1) / blocks - c));
      }
      fresh = false;
    }
  }

 private:
  struct Piece {
    std::int64_t td, th, tw, channels, begin, end;
    bool fresh;
    const T* x;
    const T* dy;
    float* sum;
  };

  template <int kVectors>
  KOKKOS_INLINE_FUNCTION void run_vectors(const Piece& piece, int vectors, int sources) const {
    if constexpr (kVectors > 1) {
      if (vectors < kVectors) return run_vectors<kVectors - 1>(piece, vectors, sources);
    }
    run_sources<kVectors, lanes::kPoints>(piece, sources);
  }

  template <int kVectors, int kSources>
  KOKKOS_INLINE_FUNCTION void run_sources(const Piece& piece, int sources) const {
    if constexpr (kSources > 1) {
      if (sources < kSources) return run_sources<kVectors, kSources - 1>(piece, sources);
    }
    compute<kVectors, kSources>(piece);
  }

  template <int kVectors, int kSources>
  KOKKOS_INLINE_FUNCTION void compute(const Piece& piece) const {
    const ConvGeometry& g = desc.geometry;
    lanes::Floats sums[kSources][kVectors] = {};
    const int last = static_cast<int>(piece.channels - (kVectors - 1) * lanes::kLanes);  // lanes of the last register
    const bool whole = last >= lanes::kLanes;
    // Pixels [lo, hi) of a row read inside of the input: 0 <= o stride + q < in.w.
    const std::int64_t q = piece.tw * g.dilation.w - g.pad_begin.w;
    const std::int64_t lo = q >= 0 ? 0 : (-q + g.stride.w - 1) / g.stride.w;
    std::int64_t hi = q >= desc.in.w ? 0 : (desc.in.w - 1 - q) / g.stride.w + 1;
    hi = hi < desc.out.w ? hi : desc.out.w;
    const std::int64_t x_step = g.stride.w * desc.x_strides.w, dy_step = desc.y_strides.w;
    std::int64_t oh = piece.begin % desc.out.h, od = piece.begin / desc.out.h % desc.out.d;
    std::int64_t sample = piece.begin / desc.out.h / desc.out.d;
    for (std::int64_t row = piece.begin; row < piece.end; ++row) {
      const std::int64_t id = od * g.stride.d + piece.td * g.dilation.d - g.pad_begin.d;
      const std::int64_t ih = oh * g.stride.h + piece.th * g.dilation.h - g.pad_begin.h;
      if (id >= 0 && id < desc.in.d && ih >= 0 && ih < desc.in.h && lo < hi) {
        const T* a = piece.x + sample * desc.x_strides.n + id * desc.x_strides.d + ih * desc.x_strides.h +
                     (lo * g.stride.w + q) * desc.x_strides.w;
        const T* b =
            piece.dy + sample * desc.y_strides.n + od * desc.y_strides.d + oh * desc.y_strides.h + lo * dy_step;
        for (std::int64_t o = lo; o < hi; ++o, a += x_step, b += dy_step) {
          lanes::Floats gradient[kVectors];
          unrolled<kVectors - 1>([&](auto v) { lanes::load(b + v * lanes::kLanes, gradient[v]); });
          if (whole) {
            lanes::load(b + (kVectors - 1) * lanes::kLanes, gradient[kVectors - 1]);
          } else {
            lanes::load_part(b + (kVectors - 1) * lanes::kLanes, last, gradient[kVectors - 1]);
          }
          unrolled<kSources>([&](auto c) {
            const float value = static_cast<float>(a[c]);
            unrolled<kVectors>([&](auto v) { lanes::multiply_add(sums[c][v], value, gradient[v]); });
          });
        }
      }
      if (++oh == desc.out.h) {
        oh = 0;
        if (++od == desc.out.d) od = 0, ++sample;
      }
    }
    unrolled<kSources>([&](auto c) {
      unrolled<kVectors>([&](auto v) {
        float* to = piece.sum + (c * kVectors + v) * lanes::kLanes;
        lanes::Floats before = {};
        if (!piece.fresh) lanes::load(to, before);
        lanes::multiply_add(before, 1.0F, sums[c][v]);
        lanes::store(to, lanes::kLanes, before);
      });
    });
  }
};

/// sum += the parts, in their order, in double: there may be thousands.
struct AddParts {
  std::int64_t parts, elements;
  const float* from;
  float* sum;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    double total = 0;
    for (std::int64_t part = 0; part < parts; ++part) total += static_cast<double>(from[part * elements + i]);
    sum[i] += static_cast<float>(total);
  }
};

}  // namespace petaflow::portable
