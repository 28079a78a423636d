// Portable backward-weights convolution: outer products of input and output-gradient channels, summed over pixels for
// blocks of channels x channels that stay in registers.
#pragma once

#include "kernels/conv_gather.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow::portable {

/// Sums over the rows of part r = task / shares into the part's own copy of the gradient, pieces (group, tap, block of
/// input channels, block of output channels) of share task % shares.  Nothing is shared between tasks, and the caller
/// adds the parts in their order, so that the result depends on (parts, shares) alone.
///
/// On the host the operands of a piece are copied first, in f32: the channels of neighbouring pixels lie next to each
/// other then, instead of at distances of powers of two, which share few places of the L1d cache (256 channels,
/// stride 2: 57 to 74 % of the peak in f32).
template <class T>
struct Outer {
  ConvDesc desc;
  PackedOrder order;  // sources: input channels, targets: output channels
  std::int64_t parts, shares;
  std::int64_t rows_per_chunk;  // rows whose pixels stay in cache while all pieces pass over them
  const T* x;
  const T* dy;
  float* sum;     // += where parts is 1, otherwise parts copies of order.elements(), =
  float* copies;  // of each task, copied_elements() of them

  /// Pixels of a chunk, roughly: more where the gradient does not stay in the L2 cache between them (256 channels,
  /// stride 2: 8 % faster).
  std::int64_t wanted_pixels() const { return order.elements() > 131072 ? 512 : 128; }
  static constexpr std::int64_t kPoints = lanes::kPoints;

  std::int64_t pieces() const { return order.groups * order.blocks() * order.taps * source_blocks(); }
  std::int64_t rows() const { return desc.n * desc.out.d * desc.out.h; }
  std::int64_t chunks() const { return (rows() + rows_per_chunk - 1) / rows_per_chunk; }
  KOKKOS_INLINE_FUNCTION std::int64_t source_blocks() const { return (order.sources + kPoints - 1) / kPoints; }
  KOKKOS_INLINE_FUNCTION std::int64_t chunk_pixels() const { return rows_per_chunk * desc.out.w; }
  /// dy (group, block, pixel of the chunk, channel of the block) and a block of x (pixel, kPoints).
  KOKKOS_INLINE_FUNCTION std::int64_t copied_elements() const {
    return kOnHost ? chunk_pixels() * (order.groups * order.padded() + kPoints) : 0;
  }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t task) const {
    const std::int64_t part = task / shares, share = task % shares;
    const std::int64_t source_count = source_blocks(), blocks = order.blocks();
    const std::int64_t pieces = order.groups * order.taps * source_count * blocks;
    const std::int64_t rows = desc.n * desc.out.d * desc.out.h, chunks = (rows + rows_per_chunk - 1) / rows_per_chunk;
    const std::int64_t first_piece = pieces * share / shares, last_piece = pieces * (share + 1) / shares;
    float* const own_dy = kOnHost ? copies + task * copied_elements() : nullptr;
    float* const own_x = own_dy + chunk_pixels() * order.groups * order.padded();
    bool fresh = parts > 1;
    for (std::int64_t chunk = chunks * part / parts; chunk < chunks * (part + 1) / parts; ++chunk) {
      Piece p;
      p.begin = chunk * rows_per_chunk;
      p.end = p.begin + rows_per_chunk < rows ? p.begin + rows_per_chunk : rows;
      p.fresh = fresh;
      if constexpr (kOnHost) copy_dy(p.begin, p.end, own_dy);
      for (std::int64_t piece = first_piece; piece < last_piece; ++piece) {
        const std::int64_t block = piece % blocks, at = piece / blocks % source_count,
                           strip = piece / blocks / source_count, tap = strip % order.taps, group = strip / order.taps;
        const std::int64_t c = order.sources * at / source_count;
        const auto sources = static_cast<int>(order.sources * (at + 1) / source_count - c);
        p.td = tap / (desc.geometry.kernel.h * desc.geometry.kernel.w);
        p.th = tap / desc.geometry.kernel.w % desc.geometry.kernel.h;
        p.tw = tap % desc.geometry.kernel.w;
        p.x = x + group * order.sources + c;
        p.dy = dy + group * order.targets + block * lanes::kBlock;
        p.channels = order.targets - block * lanes::kBlock;
        p.sum = sum + (parts > 1 ? part * order.elements() : 0) + order.block_begin(group, block) +
                (tap * order.sources + c) * order.width(block);
        if constexpr (kOnHost) {
          if (copies_x() && (block == 0 || piece == first_piece)) copy_x(p, sources, own_x);
          p.own_x = own_x;
          p.own_dy = own_dy + chunk_pixels() * (group * order.padded() + block * lanes::kBlock);
        }
        run_vectors<lanes::kVectors>(p, static_cast<int>(order.width(block) / lanes::kLanes), sources);
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
    const float *own_x, *own_dy;  // on the host
    float* sum;
  };

  /// f(pixel of the chunk, x, dy, count, x step): the runs of pixels of a piece that read inside of the input, where
  /// they begin, and elements from one pixel of x to the next.
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION void for_runs(const Piece& piece, const F& f) const {
    const ConvGeometry& g = desc.geometry;
    // Pixels [lo, hi) of a row: 0 <= o stride + q < in.w.
    const std::int64_t q = piece.tw * g.dilation.w - g.pad_begin.w;
    const std::int64_t lo = q >= 0 ? 0 : (-q + g.stride.w - 1) / g.stride.w;
    std::int64_t hi = q >= desc.in.w ? 0 : (desc.in.w - 1 - q) / g.stride.w + 1;
    hi = hi < desc.out.w ? hi : desc.out.w;
    std::int64_t oh = piece.begin % desc.out.h, od = piece.begin / desc.out.h % desc.out.d;
    std::int64_t sample = piece.begin / desc.out.h / desc.out.d;
    for (std::int64_t row = piece.begin; row < piece.end; ++row) {
      const std::int64_t id = od * g.stride.d + piece.td * g.dilation.d - g.pad_begin.d;
      const std::int64_t ih = oh * g.stride.h + piece.th * g.dilation.h - g.pad_begin.h;
      if (id >= 0 && id < desc.in.d && ih >= 0 && ih < desc.in.h && lo < hi) {
        const T* a = piece.x + sample * desc.x_strides.n + id * desc.x_strides.d + ih * desc.x_strides.h +
                     (lo * g.stride.w + q) * desc.x_strides.w;
        const T* b = piece.dy + sample * desc.y_strides.n + od * desc.y_strides.d + oh * desc.y_strides.h +
                     lo * desc.y_strides.w;
        f((row - piece.begin) * desc.out.w + lo, a, b, hi - lo, g.stride.w * desc.x_strides.w);
      }
      if (++oh == desc.out.h) {
        oh = 0;
        if (++od == desc.out.d) od = 0, ++sample;
      }
    }
  }

  /// Whether the copy of a block of x is read often enough to pay.
  bool copies_x() const { return order.blocks() >= 4; }

  /// All channels of dy of a chunk.
  void copy_dy(std::int64_t begin, std::int64_t end, float* to) const {
    const Strides& s = desc.y_strides;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t oh = row % desc.out.h, od = row / desc.out.h % desc.out.d,
                         sample = row / desc.out.h / desc.out.d;
      const T* from = dy + sample * s.n + od * s.d + oh * s.h;
      for (std::int64_t o = 0; o < desc.out.w; ++o, from += s.w) {
        const std::int64_t pixel = (row - begin) * desc.out.w + o;
        for (std::int64_t group = 0; group < order.groups; ++group) {
          for (std::int64_t k = 0; k < order.padded(); k += lanes::kLanes) {
            const std::int64_t block = k / lanes::kBlock, left = order.targets - k;
            float* const at = to + chunk_pixels() * (group * order.padded() + block * lanes::kBlock) +
                              pixel * order.width(block) + k % lanes::kBlock;
            lanes::Floats values;
            if (left >= lanes::kLanes) {
              lanes::load(from + group * order.targets + k, values);
            } else {
              lanes::load_part(from + group * order.targets + k, static_cast<int>(left), values);
            }
            lanes::store(at, lanes::kLanes, values);
          }
        }
      }
    }
  }

  /// The channels of x of a piece.  Pixels are too far apart for the processor to see that they are a row.
  void copy_x(const Piece& piece, int sources, float* to) const {
    constexpr std::int64_t kAhead = 16;  // pixels
    for_runs(piece, [&](std::int64_t pixel, const T* a, const T*, std::int64_t count, std::int64_t x_step) {
      with_constant<lanes::kPoints>(sources, [&](auto known) {
        float* at = to + pixel * kPoints;
        for (std::int64_t o = 0; o < count; ++o, a += x_step, at += kPoints) {
          __builtin_prefetch(a + kAhead * x_step);
          __builtin_prefetch(a + kAhead * x_step + kPoints);
          for (int c = 0; c < known; ++c) at[c] = static_cast<float>(a[c]);
        }
      });
    });
  }

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
    lanes::Floats sums[kSources][kVectors] = {};
    const auto add = [&](const auto* a, const lanes::Floats(&gradient)[kVectors]) {
      unrolled<kSources>([&](auto c) {
        const float value = static_cast<float>(a[c]);
        unrolled<kVectors>([&](auto v) { lanes::multiply_add(sums[c][v], value, gradient[v]); });
      });
    };
    for_runs(piece, [&](std::int64_t pixel, const T* a, const T* b, std::int64_t count, std::int64_t x_step) {
      lanes::Floats gradient[kVectors];
      if constexpr (kOnHost) {
        const float* own_dy = piece.own_dy + pixel * kVectors * lanes::kLanes;
        const auto pass = [&](const auto* from, std::int64_t step) {
          for (std::int64_t o = 0; o < count; ++o, from += step, own_dy += kVectors * lanes::kLanes) {
            unrolled<kVectors>([&](auto v) { lanes::load(own_dy + v * lanes::kLanes, gradient[v]); });
            add(from, gradient);
          }
        };
        copies_x() ? pass(piece.own_x + pixel * kPoints, kPoints) : pass(a, x_step);
      } else {
        const int last = static_cast<int>(piece.channels - (kVectors - 1) * lanes::kLanes);  // of the last register
        for (std::int64_t o = 0; o < count; ++o, a += x_step, b += desc.y_strides.w) {
          unrolled<kVectors - 1>([&](auto v) { lanes::load(b + v * lanes::kLanes, gradient[v]); });
          if (last >= lanes::kLanes) {
            lanes::load(b + (kVectors - 1) * lanes::kLanes, gradient[kVectors - 1]);
          } else {
            lanes::load_part(b + (kVectors - 1) * lanes::kLanes, last, gradient[kVectors - 1]);
          }
          add(a, gradient);
        }
      }
    });
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
