// The epilogue of blocks of channels: plain data and functions for host and devices, internal to epilogue.cpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "base/context.hpp"
#include "kernels/channel_blocks.hpp"
#include "kernels/dropout_draws.hpp"
#include "kernels/epilogue.hpp"
#include "kernels/exact_sum.hpp"
#include "kernels/lanes.hpp"

namespace petaflow::epilogue {

using channel_blocks::bytes_of_bits;
using channel_blocks::read_channels;
using channel_blocks::write_channels;
using lanes::Floats;
using lanes::Ints;
using lanes::Mask;
using lanes::select;
using lanes::unrolled;

// Channels are handled in units of registers that fill whole blocks of draws and whole bytes of sign bits; on the host
// in four units at once, which share the walk over a window (not measured against other numbers).
inline constexpr int kUnit = lanes::kLanes >= kDrawsPerBlock ? 1 : kDrawsPerBlock / lanes::kLanes;
inline constexpr int kWidest = kOnHost ? 4 * kUnit : kUnit;

// A saved code: position in the window, and what became of the value.
template <class Code>
struct CodeBits {
  static constexpr Code kDead = Code(1) << (8 * sizeof(Code) - 1);      // no gradient passes
  static constexpr Code kNegative = Code(1) << (8 * sizeof(Code) - 2);  // the negative slope applies
  static constexpr Code kIndex = kNegative - 1;
};
static_assert(CodeBits<std::uint16_t>::kIndex + 1 == kLargestMaxWindow);

/// Windows that touch the inputs [begin, end) of a direction.
KOKKOS_INLINE_FUNCTION Interval windows_over(const Interval& inputs, std::int64_t window, std::int64_t stride,
                                             std::int64_t pad, std::int64_t outputs) {
  const std::int64_t lowest = inputs.begin + pad - (window - 1);
  const std::int64_t first = lowest <= 0 ? 0 : (lowest + stride - 1) / stride;
  const std::int64_t last = (inputs.end - 1 + pad) / stride;
  const std::int64_t end = last + 1 < outputs ? last + 1 : outputs;
  return {first, end > first ? end : first};
}

/// A pixel of a sample.
struct Pixel {
  std::int64_t sample, d, h, w;
};

/// One call's operands: v or its gradient in V, y or its gradient in T.
template <class V, class T, class Code>
struct Operands {
  EpilogueDesc desc;
  TileRange v_range;         // what the buffer v holds
  bool dropout;              // draws in this call
  std::uint32_t drop_below;  // a draw of 16 bits below it drops
  V* v;                      // first pixel of the buffer (const in forward)
  std::int64_t v_stride;     // elements between its pixels
  const float *scale, *bias;
  const T* residual;  // first pixel of the tensor
  std::int64_t residual_stride;
  T* y;  // y or dy
  std::int64_t y_stride;
  std::uint8_t* saved;
  std::int64_t saved_per_sample;
  BiasSum bias_gradient;
  const StepState* step;

  KOKKOS_INLINE_FUNCTION RandomStream stream() const {
    return dropout ? layer_stream(*step, RandomPurpose::kDropout, desc.layer) : RandomStream{};
  }

  /// Writes y (and saved) at a pixel of y: kVectors registers of channels from c0, of which `count` exist, all of them
  /// where kWhole.  kPixels neighbours along W share the registers where they may (lie_side_by_side).  kMapped: there
  /// is a scale or a residual.
  template <int kVectors, bool kWhole, int kPixels, bool kMapped>
  KOKKOS_INLINE_FUNCTION void forward(const RandomStream& random, const Pixel& at, std::int64_t c0, int count) const {
    desc.pool.kind == PoolKind::kAverage ? forward_average<kVectors, kWhole, kPixels, kMapped>(random, at, c0, count)
                                         : forward_max<kVectors, kWhole, kPixels, kMapped>(random, at, c0, count);
  }
  KOKKOS_INLINE_FUNCTION bool lie_side_by_side() const { return y_stride == desc.y.c && desc.pool.pad.w == 0; }

  /// Writes dv under the window of a pixel of y, for pooling whose windows tile and for no pooling.  The bias' gradient
  /// is summed over the window first: one addition to memory per window.
  template <int kVectors, bool kWhole, int kPixels>
  KOKKOS_INLINE_FUNCTION void scatter(const RandomStream& random, const Pixel& at, std::int64_t c0, int count) const {
    Floats sum[kVectors] = {};
    const auto write = [&](V* pixel, const Floats(&value)[kVectors]) {
      write_channels<kWhole, kPixels>(pixel + c0, count, value, v_step());
      unrolled<kVectors>([&](auto r) { sum[r] += value[r]; });
    };
    if (desc.pool.kind == PoolKind::kAverage) {
      Floats g[kVectors];
      mean_gradient<kWhole>(random, at, c0, count, g);
      for_window(at, [&](int, std::int64_t index, V* pixel) {
        Floats value[kVectors];
        pass_activation<kWhole, kPixels>(at.sample, index, c0, count, g, value);
        write(pixel, value);
      });
    } else {
      Floats g[kVectors];
      Ints position[kVectors];
      read_gradient<kWhole>(at.sample, y_index(at), c0, count, g, position);
      for_window(at, [&](int tap, std::int64_t, V* pixel) {
        Floats value[kVectors];
        unrolled<kVectors>([&](auto r) { value[r] = select(lanes::equal(position[r], tap), g[r], Floats{}); });
        write(pixel, value);
      });
    }
    add_bias_gradient<kWhole, kPixels>(c0, count, sum);
  }

  /// True where y is a function of v pixel by pixel: neither pooling nor dropout, and no more than signs to keep.
  bool pointwise() const {
    return desc.pool.tiles() && desc.pool.window.volume() == 1 && !dropout && (saved == nullptr || desc.saves_signs());
  }

  /// forward() at the pixels of a row from at.w to before `last`, where pointwise(); on the host.  What does not change
  /// from pixel to pixel is outside the loop, and the numbers are those of forward().
  template <int kVectors, bool kWhole, bool kMapped>
  KOKKOS_INLINE_FUNCTION void forward_row(const Pixel& at, std::int64_t last, std::int64_t c0, int count) const {
    Floats multiply[kVectors], add[kVectors] = {};
    if (bias != nullptr) read_channels<kWhole>(bias + c0, count, add);
    if constexpr (kMapped) read_scale<kWhole, 1>(c0, count, multiply);
    const Floats slope = lanes::all(desc.activation ? desc.negative_slope : 1.0F);
    // A mean over a window begins with 0, to which -0 is added as 0; x + -0 is x.
    const Floats zero = lanes::all(desc.pool.kind == PoolKind::kAverage ? 0.0F : -0.0F);
    const bool keeps_signs = desc.activation && saved != nullptr;
    const std::int64_t row = y_index({at.sample, at.d, at.h, 0});
    const V* const from = v_row(at.sample, at.d, at.h) + c0;
    T* const to = y_pixel({at.sample, at.d, at.h, 0}) + c0;
    for (std::int64_t w = at.w; w < last; ++w) {
      Floats x[kVectors];
      read_channels<kWhole>(from + w * v_stride, count, x);
      if constexpr (kMapped) map<kWhole, 1>(at.sample, row + w, c0, count, multiply, add, x);
      std::uint64_t bits = 0;
      unrolled<kVectors>([&](auto r) {
        const Floats value = kMapped ? x[r] : x[r] + add[r];
        const Mask positive = lanes::greater(value, Floats{});
        x[r] = zero + select(positive, value, value * slope);
        bits |= std::uint64_t{lanes::bits_of(positive)} << (r * lanes::kLanes);
      });
      write_channels<kWhole>(to + w * y_stride, count, x);
      if (keeps_signs) {
        std::memcpy(sign_bits(at.sample, row + w, c0), &bits, bytes_of_bits<kVectors, kWhole>(count));
      }
    }
  }

  /// scatter() at the pixels of a row from at.w to before `last`, where pointwise(); on the host.
  template <int kVectors, bool kWhole>
  KOKKOS_INLINE_FUNCTION void scatter_row(const Pixel& at, std::int64_t last, std::int64_t c0, int count) const {
    const std::int64_t row = y_index({at.sample, at.d, at.h, 0});
    const T* const from = y_pixel({at.sample, at.d, at.h, 0}) + c0;
    V* const to = v_row(at.sample, at.d, at.h) + c0;
    const bool sums = bias_gradient.some != nullptr;
    Floats sum[kVectors] = {};
    if (sums) read_channels<kWhole>(bias_gradient.some + c0, count, sum);
    for (std::int64_t w = at.w; w < last; ++w) {
      Floats g[kVectors];
      read_channels<kWhole>(from + w * y_stride, count, g);
      pass_activation<kWhole, 1>(at.sample, row + w, c0, count, g, g);
      write_channels<kWhole>(to + w * v_stride, count, g);
      unrolled<kVectors>([&](auto r) { sum[r] += g[r]; });
    }
    if (sums) write_channels<kWhole>(bias_gradient.some + c0, count, sum);
  }

  /// Writes dv at a pixel of v: the sum over the windows that it lies in.
  template <int kVectors, bool kWhole>
  KOKKOS_INLINE_FUNCTION void gather(const RandomStream& random, const Pixel& at, std::int64_t c0, int count) const {
    const PoolGeometry& pool = desc.pool;
    const bool average = pool.kind == PoolKind::kAverage;
    Floats sum[kVectors] = {};
    const Interval od = windows_over({at.d, at.d + 1}, pool.window.d, pool.stride.d, pool.pad.d, desc.y.d);
    const Interval oh = windows_over({at.h, at.h + 1}, pool.window.h, pool.stride.h, pool.pad.h, desc.y.h);
    const Interval ow = windows_over({at.w, at.w + 1}, pool.window.w, pool.stride.w, pool.pad.w, desc.y.w);
    for (std::int64_t d = od.begin; d < od.end; ++d) {
      for (std::int64_t h = oh.begin; h < oh.end; ++h) {
        for (std::int64_t w = ow.begin; w < ow.end; ++w) {
          const Pixel window{at.sample, d, h, w};
          Floats g[kVectors];
          if (average) {
            mean_gradient<kWhole>(random, window, c0, count, g);
            unrolled<kVectors>([&](auto r) { sum[r] += g[r]; });
          } else {
            const std::int64_t tap =
                ((at.d + pool.pad.d - d * pool.stride.d) * pool.window.h + (at.h + pool.pad.h - h * pool.stride.h)) *
                    pool.window.w +
                at.w + pool.pad.w - w * pool.stride.w;
            Ints position[kVectors];
            read_gradient<kWhole>(at.sample, y_index(window), c0, count, g, position);
            unrolled<kVectors>([&](auto r) {
              sum[r] += select(lanes::equal(position[r], static_cast<std::int32_t>(tap)), g[r], Floats{});
            });
          }
        }
      }
    }
    const std::int64_t index = (at.d * desc.v.h + at.h) * desc.v.w + at.w;
    if (average) pass_activation<kWhole, 1>(at.sample, index, c0, count, sum, sum);
    write_channels<kWhole>(v_row(at.sample, at.d, at.h) + at.w * v_stride + c0, count, sum);
    add_bias_gradient<kWhole, 1>(c0, count, sum);
  }

  /// Adds to the bias' gradient what has been summed in f32.
  void flush_bias_gradient() const {
    if (bias_gradient.some == nullptr) return;
    move_sum(bias_gradient.some, bias_gradient.total, static_cast<std::size_t>(desc.v.c));
  }

 private:
  // A row of the buffer.
  KOKKOS_INLINE_FUNCTION V* v_row(std::int64_t sample, std::int64_t d, std::int64_t h) const {
    const std::int64_t plane = (sample - v_range.sample.begin) * v_range.d.size() + d - v_range.d.begin;
    return v + (plane * v_range.h.size() + h - v_range.h.begin) * desc.v.w * v_stride;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t y_index(const Pixel& at) const {
    return (at.d * desc.y.h + at.h) * desc.y.w + at.w;
  }
  KOKKOS_INLINE_FUNCTION T* y_pixel(const Pixel& at) const {
    return y + (at.sample * desc.y.pixels() + y_index(at)) * y_stride;
  }
  KOKKOS_INLINE_FUNCTION std::uint8_t* sign_bits(std::int64_t sample, std::int64_t v_pixel, std::int64_t c0) const {
    return saved + sample * saved_per_sample + v_pixel * ((desc.v.c + 7) / 8) + c0 / 8;
  }
  KOKKOS_INLINE_FUNCTION Code* codes(std::int64_t sample, std::int64_t y_pixel, std::int64_t c0) const {
    return reinterpret_cast<Code*>(saved + sample * saved_per_sample) + y_pixel * desc.y.c + c0;
  }

  // Between the windows of neighbouring pixels of y.
  KOKKOS_INLINE_FUNCTION std::int64_t v_step() const { return desc.pool.stride.w * v_stride; }

  // Map of v before it is pooled: scale v + bias + residual.  index: the pixel of the sample.
  template <bool kWhole, int kPixels, int kVectors>
  KOKKOS_INLINE_FUNCTION void map(std::int64_t sample, std::int64_t index, std::int64_t c0, int count,
                                  const Floats (&multiply)[kVectors], const Floats (&add)[kVectors],
                                  Floats (&x)[kVectors]) const {
    unrolled<kVectors>([&](auto r) {
      Floats sum = add[r];
      lanes::multiply_add(sum, multiply[r], x[r]);
      x[r] = sum;
    });
    if (residual == nullptr) return;
    Floats other[kVectors];
    const T* pixel = residual + (sample * desc.v.pixels() + index) * residual_stride + c0;
    read_channels<kWhole, kPixels>(pixel, count, other, desc.pool.stride.w * residual_stride);
    unrolled<kVectors>([&](auto r) { x[r] += other[r]; });
  }
  template <bool kWhole, int kPixels, int kVectors>
  KOKKOS_INLINE_FUNCTION void read_scale(std::int64_t c0, int count, Floats (&to)[kVectors]) const {
    if (scale != nullptr) {
      read_channels<kWhole, kPixels>(scale + c0, count, to, 0);
    } else {
      unrolled<kVectors>([&](auto r) { to[r] = lanes::all(1.0F); });
    }
  }

  // Calls f(tap, index, pixel) for the pixels of a window that lie in the tensor and in the buffer; index counts pixels
  // from the sample's first one, `pixel` is where its channels begin in the buffer.
  template <class F>
  KOKKOS_INLINE_FUNCTION void for_window(const Pixel& at, const F& f) const {
    const PoolGeometry& pool = desc.pool;
    const Pixel first{at.sample, at.d * pool.stride.d - pool.pad.d, at.h * pool.stride.h - pool.pad.h,
                      at.w * pool.stride.w - pool.pad.w};
    const Interval d = inside(first.d, pool.window.d, v_range.d), h = inside(first.h, pool.window.h, v_range.h),
                   w = inside(first.w, pool.window.w, {0, desc.v.w});
    for (std::int64_t pd = d.begin; pd < d.end; ++pd) {
      for (std::int64_t ph = h.begin; ph < h.end; ++ph) {
        const std::int64_t tap = ((pd - first.d) * pool.window.h + ph - first.h) * pool.window.w - first.w;
        const std::int64_t index = (pd * desc.v.h + ph) * desc.v.w;
        V* row = v_row(at.sample, pd, ph);
        for (std::int64_t pw = w.begin; pw < w.end; ++pw) {
          f(static_cast<int>(tap + pw), index + pw, row + pw * v_stride);
        }
      }
    }
  }
  KOKKOS_INLINE_FUNCTION static Interval inside(std::int64_t begin, std::int64_t size, const Interval& limits) {
    return {begin > limits.begin ? begin : limits.begin, begin + size < limits.end ? begin + size : limits.end};
  }

  // Which channels dropout keeps, a bit each.  The numbers are those of stream(sample, block) with
  // block = pixel * ceil(C / 8) + channel / 8.
  template <int kVectors>
  KOKKOS_INLINE_FUNCTION std::uint64_t kept(const RandomStream& random, std::int64_t sample, std::int64_t y_pixel,
                                            std::int64_t c0) const {
    if (!dropout) return ~std::uint64_t{0};
    const std::int64_t first = y_pixel * ((desc.y.c + kDrawsPerBlock - 1) / kDrawsPerBlock) + c0 / kDrawsPerBlock;
    return draws_from<kVectors * lanes::kLanes / kDrawsPerBlock>(
        random, static_cast<std::uint64_t>(step->sample[sample]), static_cast<std::uint64_t>(first), drop_below);
  }
  // Factor of the values that are kept; with the mean over a window.
  KOKKOS_INLINE_FUNCTION float keep_scale() const { return dropout ? 1.0F / (1.0F - desc.dropout) : 1.0F; }
  KOKKOS_INLINE_FUNCTION float mean_scale() const {
    return keep_scale() / static_cast<float>(desc.pool.window.volume());
  }
  // The lanes of register kRegister.
  template <int kRegister>
  KOKKOS_INLINE_FUNCTION static Mask mask(std::uint64_t channel_bits) {
    return lanes::mask_of(static_cast<std::uint32_t>(channel_bits >> (kRegister * lanes::kLanes)));
  }

  // A bias commutes with the maximum; what differs from pixel to pixel, or has a sign, is applied to each.
  template <int kVectors, bool kWhole, int kPixels, bool kMapped>
  KOKKOS_INLINE_FUNCTION void forward_max(const RandomStream& random, const Pixel& at, std::int64_t c0,
                                          int count) const {
    using Bits = CodeBits<Code>;
    Floats best[kVectors], multiply[kVectors], add[kVectors] = {};
    Ints position[kVectors] = {};
    if (bias != nullptr) read_channels<kWhole, kPixels>(bias + c0, count, add, 0);
    if constexpr (kMapped) read_scale<kWhole, kPixels>(c0, count, multiply);
    unrolled<kVectors>([&](auto r) { best[r] = lanes::all(-std::numeric_limits<float>::infinity()); });
    for_window(at, [&](int tap, [[maybe_unused]] std::int64_t index, const V* pixel) {
      Floats x[kVectors];
      read_channels<kWhole, kPixels>(pixel + c0, count, x, v_step());
      if constexpr (kMapped) map<kWhole, kPixels>(at.sample, index, c0, count, multiply, add, x);
      unrolled<kVectors>([&](auto r) {
        // The first of equal values wins, as in PyTorch; a NaN wins over everything and is passed on.
        const Mask better = lanes::greater(x[r], best[r]) | lanes::unordered(x[r]);
        best[r] = select(better, x[r], best[r]);
        position[r] = select(better, lanes::all(tap), position[r]);
      });
    });
    const std::uint64_t kept_bits = kept<kVectors>(random, at.sample, y_index(at), c0);
    const Floats keep = lanes::all(keep_scale());
    const Floats slope = lanes::all(desc.activation ? desc.negative_slope : 1.0F);
    const std::int32_t dead = Bits::kDead,
                       negative = !desc.activation ? 0 : Bits::kNegative | (desc.negative_slope == 0 ? dead : 0);
    unrolled<kVectors>([&](auto r) {
      const Floats value = kMapped ? best[r] : best[r] + add[r];
      const Mask positive = lanes::greater(value, Floats{}), alive = mask<r>(kept_bits);
      best[r] = select(alive, select(positive, value, value * slope) * keep, Floats{});
      position[r] =
          position[r] | select(positive, Ints{}, lanes::all(negative)) | select(alive, Ints{}, lanes::all(dead));
    });
    write_channels<kWhole>(y_pixel(at) + c0, count, best);
    if (saved != nullptr) write_channels<kWhole>(codes(at.sample, y_index(at), c0), count, position);
  }

  template <int kVectors, bool kWhole, int kPixels, bool kMapped>
  KOKKOS_INLINE_FUNCTION void forward_average(const RandomStream& random, const Pixel& at, std::int64_t c0,
                                              int count) const {
    Floats sum[kVectors] = {}, multiply[kVectors], add[kVectors] = {};
    if (bias != nullptr) read_channels<kWhole, kPixels>(bias + c0, count, add, 0);
    if constexpr (kMapped) read_scale<kWhole, kPixels>(c0, count, multiply);
    const Floats slope = lanes::all(desc.activation ? desc.negative_slope : 1.0F);
    const bool keeps_signs = desc.activation && saved != nullptr;
    for_window(at, [&](int, std::int64_t index, const V* pixel) {
      Floats x[kVectors];
      read_channels<kWhole, kPixels>(pixel + c0, count, x, v_step());
      if constexpr (kMapped) map<kWhole, kPixels>(at.sample, index, c0, count, multiply, add, x);
      std::uint64_t bits = 0;
      unrolled<kVectors>([&](auto r) {
        const Floats value = kMapped ? x[r] : x[r] + add[r];
        const Mask positive = lanes::greater(value, Floats{});
        sum[r] += select(positive, value, value * slope);
        bits |= std::uint64_t{lanes::bits_of(positive)} << (r * lanes::kLanes);
      });
      if (keeps_signs) {
        std::uint8_t* signs = sign_bits(at.sample, index, c0);
        for_signs<kVectors, kPixels>([&](std::int64_t offset, int shift) {
          const std::uint64_t own = bits >> shift;
          std::memcpy(signs + offset, &own, bytes_of_bits<kVectors / kPixels, kWhole>(count));
        });
      }
    });
    const std::uint64_t kept_bits = kept<kVectors>(random, at.sample, y_index(at), c0);
    const Floats factor = lanes::all(mean_scale());
    unrolled<kVectors>([&](auto r) { sum[r] = select(mask<r>(kept_bits), sum[r] * factor, Floats{}); });
    write_channels<kWhole>(y_pixel(at) + c0, count, sum);
  }

  // f(bytes behind those of the first pixel, place in the bits of the block) for the pixels of a block.
  template <int kVectors, int kPixels, class F>
  KOKKOS_INLINE_FUNCTION void for_signs(const F& f) const {
    constexpr int kBits = kVectors / kPixels * lanes::kLanes;
    unrolled<kPixels>([&](auto p) { f(p * desc.pool.stride.w * (kBits / 8), p * kBits); });
  }

  // Average pooling: what reaches each pixel of the window of a pixel of y.
  template <bool kWhole, int kVectors>
  KOKKOS_INLINE_FUNCTION void mean_gradient(const RandomStream& random, const Pixel& at, std::int64_t c0, int count,
                                            Floats (&g)[kVectors]) const {
    const std::uint64_t kept_bits = kept<kVectors>(random, at.sample, y_index(at), c0);
    read_channels<kWhole>(y_pixel(at) + c0, count, g);
    const Floats factor = lanes::all(mean_scale());
    unrolled<kVectors>([&](auto r) { g[r] = select(mask<r>(kept_bits), g[r] * factor, Floats{}); });
  }

  // Average pooling: `to` is the gradient before the activation at a pixel of v, `from` that behind it.
  template <bool kWhole, int kPixels, int kVectors>
  KOKKOS_INLINE_FUNCTION void pass_activation(std::int64_t sample, std::int64_t v_pixel, std::int64_t c0, int count,
                                              const Floats (&from)[kVectors], Floats (&to)[kVectors]) const {
    std::uint64_t bits = desc.activation ? 0 : ~std::uint64_t{0};
    if (desc.activation) {
      const std::uint8_t* signs = sign_bits(sample, v_pixel, c0);
      for_signs<kVectors, kPixels>([&](std::int64_t offset, int shift) {
        std::uint64_t own = 0;
        std::memcpy(&own, signs + offset, bytes_of_bits<kVectors / kPixels, kWhole>(count));
        bits |= own << shift;
      });
    }
    const Floats slope = lanes::all(desc.negative_slope);
    unrolled<kVectors>([&](auto r) {
      const Mask positive = mask<r>(bits);
      to[r] = select(positive, from[r], from[r] * slope);
    });
  }

  // A pixel of y, for max pooling and no pooling: what reaches the input, and which position of the window.
  template <bool kWhole, int kVectors>
  KOKKOS_INLINE_FUNCTION void read_gradient(std::int64_t sample, std::int64_t y_pixel, std::int64_t c0, int count,
                                            Floats (&g)[kVectors], Ints (&position)[kVectors]) const {
    using Bits = CodeBits<Code>;
    read_channels<kWhole>(y + (sample * desc.y.pixels() + y_pixel) * y_stride + c0, count, g);
    if (saved == nullptr) {  // neither pooling nor activation nor dropout
      unrolled<kVectors>([&](auto r) { position[r] = Ints{}; });
      return;
    }
    const Floats alive = lanes::all(keep_scale());
    const Floats slope = alive * lanes::all(desc.negative_slope);
    Ints code[kVectors];
    read_channels<kWhole>(codes(sample, y_pixel, c0), count, code);
    unrolled<kVectors>([&](auto r) {
      const Mask dead = lanes::any_bit(code[r], Bits::kDead), negative = lanes::any_bit(code[r], Bits::kNegative);
      g[r] = select(dead, Floats{}, g[r] * select(negative, slope, alive));
      position[r] = code[r] & lanes::all(std::int32_t{Bits::kIndex});
    });
  }

  template <bool kWhole, int kPixels, int kVectors>
  KOKKOS_INLINE_FUNCTION void add_bias_gradient(std::int64_t c0, int count, const Floats (&sum)[kVectors]) const {
    if (bias_gradient.some == nullptr) return;
    constexpr int kOfPixel = kVectors / kPixels;
    Floats total[kOfPixel];
    read_channels<kWhole>(bias_gradient.some + c0, count, total);
    unrolled<kVectors>([&](auto r) { total[r % kOfPixel] += sum[r]; });
    write_channels<kWhole>(bias_gradient.some + c0, count, total);
  }
};

}  // namespace petaflow::epilogue
