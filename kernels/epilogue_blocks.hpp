// The epilogue of blocks of channels: plain data and functions for host and devices, internal to epilogue.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/epilogue.hpp"
#include "kernels/launch.hpp"

namespace petaflow::epilogue {

// Channels handled at once at most: on the host their state stays in L1 and the loops over it vectorise, on a device it
// stays in a thread's registers.  kWidth: the channels of a block where the compiler is to know them; 0:
// `count` of them, up to kBlock.
inline constexpr int kBlock = kOnHost ? 64 : 8;
inline constexpr int kNarrow = kOnHost ? 16 : 8;
// Dropout draws 16 bits per element; a Philox block of 128 bits serves 8 neighbouring channels of a pixel.
inline constexpr int kDrawsPerBlock = 8;

/// Floats for the channels of a block of this width.
template <int kWidth>
inline constexpr int kRoom = kWidth > 0 ? kWidth : kBlock;

// A saved code: position in the window, and what became of the value.
template <class Code>
struct CodeBits {
  static constexpr Code kDead = Code(1) << (8 * sizeof(Code) - 1);      // no gradient passes
  static constexpr Code kNegative = Code(1) << (8 * sizeof(Code) - 2);  // the negative slope applies
  static constexpr Code kIndex = kNegative - 1;
};
static_assert(CodeBits<std::uint16_t>::kIndex + 1 == kLargestMaxWindow);

struct Range {
  std::int64_t begin, end;
};

/// Windows that touch the inputs [begin, end) of a direction.
KOKKOS_INLINE_FUNCTION Range windows_over(const Range& inputs, std::int64_t window, std::int64_t stride,
                                          std::int64_t pad, std::int64_t outputs) {
  const std::int64_t lowest = inputs.begin + pad - (window - 1);
  const std::int64_t first = lowest <= 0 ? 0 : (lowest + stride - 1) / stride;
  const std::int64_t last = (inputs.end - 1 + pad) / stride;
  return {first, last + 1 < outputs ? last + 1 : outputs};
}

/// A pixel of a sample.
struct Pixel {
  std::int64_t sample, d, h, w;
};

/// One call's operands.
template <class T, class Code>
struct Blocks {
  EpilogueDesc desc;
  RowRange v_range;  // rows in the buffer v
  bool rows_are_d;
  bool dropout;              // draws in this call
  std::uint32_t drop_below;  // a draw of 16 bits below it drops
  T* v;                      // first pixel of the buffer (const in forward)
  const float* bias;
  T* y;  // y or dy
  std::int64_t y_stride;
  std::uint8_t* saved;
  std::int64_t saved_per_sample;
  float* bias_gradient;
  const StepState* step;

  KOKKOS_INLINE_FUNCTION RandomStream stream() const {
    return dropout ? layer_stream(*step, RandomPurpose::kDropout, desc.layer) : RandomStream{};
  }

  /// Writes y (and saved) at a pixel of y, channels [c0, c0 + count).
  template <int kWidth>
  KOKKOS_INLINE_FUNCTION void forward(const RandomStream& random, const Pixel& at, std::int64_t c0, int count) const {
    desc.pool.kind == PoolKind::kAverage ? forward_average<kWidth>(random, at, c0, count)
                                         : forward_max<kWidth>(random, at, c0, count);
  }

  /// Writes dv under the window of a pixel of y, for pooling whose windows tile and for no pooling.
  template <int kWidth>
  KOKKOS_INLINE_FUNCTION void scatter(const RandomStream& random, const Pixel& at, std::int64_t c0, int count) const {
    if (desc.pool.kind == PoolKind::kAverage) return scatter_average<kWidth>(random, at, c0, count);
    const int n = kWidth > 0 ? kWidth : count;
    float g[kRoom<kWidth>];
    std::int32_t position[kRoom<kWidth>];
    read_gradient<kWidth>(at.sample, y_index(at), c0, count, g, position);
    for_window(at, [&](int tap, const Pixel& pixel) {
      T* x = v_pixel(pixel) + c0;
      for (int i = 0; i < n; ++i) x[i] = static_cast<T>(position[i] == tap ? g[i] : 0.0F);
      if (bias_gradient != nullptr) {
        for (int i = 0; i < n; ++i) bias_gradient[c0 + i] += position[i] == tap ? g[i] : 0.0F;
      }
    });
  }

  /// Writes dv at a pixel of v: the sum over the windows that it lies in.
  template <int kWidth>
  KOKKOS_INLINE_FUNCTION void gather(const RandomStream& random, const Pixel& at, std::int64_t c0, int count) const {
    const int n = kWidth > 0 ? kWidth : count;
    const PoolGeometry& pool = desc.pool;
    float sum[kRoom<kWidth>] = {};
    const Range od = windows_over({at.d, at.d + 1}, pool.window.d, pool.stride.d, pool.pad.d, desc.y.d);
    const Range oh = windows_over({at.h, at.h + 1}, pool.window.h, pool.stride.h, pool.pad.h, desc.y.h);
    const Range ow = windows_over({at.w, at.w + 1}, pool.window.w, pool.stride.w, pool.pad.w, desc.y.w);
    for (std::int64_t d = od.begin; d < od.end; ++d) {
      for (std::int64_t h = oh.begin; h < oh.end; ++h) {
        for (std::int64_t w = ow.begin; w < ow.end; ++w) {
          const Pixel window{at.sample, d, h, w};
          float g[kRoom<kWidth>];
          if (pool.kind == PoolKind::kAverage) {
            draw(random, at.sample, y_index(window), c0, g);
            const T* gradient = y_pixel(window) + c0;
            for (int i = 0; i < n; ++i) sum[i] += g[i] * static_cast<float>(gradient[i]);
          } else {
            const std::int64_t tap =
                ((at.d + pool.pad.d - d * pool.stride.d) * pool.window.h + (at.h + pool.pad.h - h * pool.stride.h)) *
                    pool.window.w +
                at.w + pool.pad.w - w * pool.stride.w;
            std::int32_t position[kRoom<kWidth>];
            read_gradient<kWidth>(at.sample, y_index(window), c0, count, g, position);
            for (int i = 0; i < n; ++i) sum[i] += position[i] == tap ? g[i] : 0.0F;
          }
        }
      }
    }
    T* x = v_pixel(at) + c0;
    const bool average = pool.kind == PoolKind::kAverage;
    const std::uint8_t* bits = average && desc.activation ? sign_bits(at, c0) : nullptr;
    const float scale = average ? 1.0F / static_cast<float>(pool.window.volume()) : 1.0F;
    for (int i = 0; i < n; ++i) {
      const bool positive = bits == nullptr || ((bits[i / 8] >> (i % 8)) & 1) != 0;
      const float value = sum[i] * (positive ? scale : scale * desc.negative_slope);
      x[i] = static_cast<T>(value);
      if (bias_gradient != nullptr) bias_gradient[c0 + i] += value;
    }
  }

 private:
  // In the buffer; the pixel's row must lie in v_range.
  KOKKOS_INLINE_FUNCTION T* v_pixel(const Pixel& at) const {
    const std::int64_t local =
        (at.sample - v_range.sample_begin) * v_range.rows() + (rows_are_d ? at.d : at.h) - v_range.begin;
    const std::int64_t pixel = rows_are_d ? (local * desc.v.h + at.h) * desc.v.w + at.w : local * desc.v.w + at.w;
    return v + pixel * desc.v.c;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t y_index(const Pixel& at) const {
    return (at.d * desc.y.h + at.h) * desc.y.w + at.w;
  }
  KOKKOS_INLINE_FUNCTION T* y_pixel(const Pixel& at) const {
    return y + (at.sample * desc.y.pixels() + y_index(at)) * y_stride;
  }
  KOKKOS_INLINE_FUNCTION std::uint8_t* sign_bits(const Pixel& at, std::int64_t c0) const {
    const std::int64_t pixel = (at.d * desc.v.h + at.h) * desc.v.w + at.w;
    return saved + at.sample * saved_per_sample + pixel * ((desc.v.c + 7) / 8) + c0 / 8;
  }
  KOKKOS_INLINE_FUNCTION Code* codes(std::int64_t sample, std::int64_t y_pixel, std::int64_t c0) const {
    return reinterpret_cast<Code*>(saved + sample * saved_per_sample) + y_pixel * desc.y.c + c0;
  }

  // Calls f(tap, pixel) for the pixels of a window that lie in the tensor and in v_range.
  template <class F>
  KOKKOS_INLINE_FUNCTION void for_window(const Pixel& at, const F& f) const {
    const PoolGeometry& pool = desc.pool;
    int tap = 0;
    for (std::int64_t kd = 0; kd < pool.window.d; ++kd) {
      const std::int64_t d = at.d * pool.stride.d - pool.pad.d + kd;
      for (std::int64_t kh = 0; kh < pool.window.h; ++kh) {
        const std::int64_t h = at.h * pool.stride.h - pool.pad.h + kh;
        const std::int64_t row = rows_are_d ? d : h;
        const bool inside =
            d >= 0 && d < desc.v.d && h >= 0 && h < desc.v.h && row >= v_range.begin && row < v_range.end;
        for (std::int64_t kw = 0; kw < pool.window.w; ++kw, ++tap) {
          const std::int64_t w = at.w * pool.stride.w - pool.pad.w + kw;
          if (inside && w >= 0 && w < desc.v.w) f(tap, Pixel{at.sample, d, h, w});
        }
      }
    }
  }

  // What dropout multiplies the channels with: 0 or 1 / keep.  The numbers are those of stream(sample, block) with
  // block = pixel * ceil(C / 8) + channel / 8; the blocks lie side by side so that they vectorise.
  template <int kCount>
  KOKKOS_INLINE_FUNCTION void draw(const RandomStream& random, std::int64_t sample, std::int64_t y_pixel,
                                   std::int64_t c0, float (&factor)[kCount]) const {
    constexpr int kLanes = kCount / kDrawsPerBlock;
    if (!dropout) {
      for (float& f : factor) f = 1.0F;
      return;
    }
    const std::int64_t first = y_pixel * ((desc.y.c + kDrawsPerBlock - 1) / kDrawsPerBlock) + c0 / kDrawsPerBlock;
    const auto id = static_cast<std::uint64_t>(step->sample[sample]);
    std::uint32_t words[4][kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto block = static_cast<std::uint64_t>(first + lane);
      words[0][lane] = static_cast<std::uint32_t>(id);
      words[1][lane] = static_cast<std::uint32_t>(id >> 32);
      words[2][lane] = static_cast<std::uint32_t>(block);
      words[3][lane] = static_cast<std::uint32_t>(block >> 32);
    }
    philox_rounds<kLanes>(words[0], words[1], words[2], words[3], random.key0, random.key1);
    const float scale = 1.0F / (1.0F - desc.dropout);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < kDrawsPerBlock; ++i) {
        const std::uint32_t bits = (words[i / 2][lane] >> (16 * (i % 2))) & 0xFFFFU;
        factor[lane * kDrawsPerBlock + i] = bits >= drop_below ? scale : 0.0F;
      }
    }
  }

  template <int kWidth>
  KOKKOS_INLINE_FUNCTION void forward_max(const RandomStream& random, const Pixel& at, std::int64_t c0,
                                          int count) const {
    using Bits = CodeBits<Code>;
    const int n = kWidth > 0 ? kWidth : count;
    float best[kRoom<kWidth>], factor[kRoom<kWidth>];
    std::int32_t position[kRoom<kWidth>];
    for (int i = 0; i < kRoom<kWidth>; ++i) {
      best[i] = -std::numeric_limits<float>::infinity();
      position[i] = 0;
    }
    for_window(at, [&](int tap, const Pixel& pixel) {
      const T* x = v_pixel(pixel) + c0;
      for (int i = 0; i < n; ++i) {
        const float value = static_cast<float>(x[i]);
        // The first of equal values wins, as in PyTorch; a NaN wins over everything and is passed on.
        const bool better = value > best[i] || value != value;
        best[i] = better ? value : best[i];
        position[i] = better ? tap : position[i];
      }
    });
    draw(random, at.sample, y_index(at), c0, factor);
    T* out = y_pixel(at) + c0;
    Code* code = saved != nullptr ? codes(at.sample, y_index(at), c0) : nullptr;
    const float slope = desc.activation ? desc.negative_slope : 1.0F;
    for (int i = 0; i < n; ++i) {
      const float value = best[i] + (bias != nullptr ? bias[c0 + i] : 0.0F);
      const bool negative = !(value > 0.0F) && desc.activation;
      const bool dead = factor[i] == 0.0F || (negative && slope == 0.0F);
      out[i] = static_cast<T>((negative && value == value ? value * slope : value) * factor[i]);
      if (code != nullptr) {
        code[i] = static_cast<Code>(position[i] | (negative ? Bits::kNegative : 0) | (dead ? Bits::kDead : 0));
      }
    }
  }

  template <int kWidth>
  KOKKOS_INLINE_FUNCTION void forward_average(const RandomStream& random, const Pixel& at, std::int64_t c0,
                                              int count) const {
    const int n = kWidth > 0 ? kWidth : count;
    float sum[kRoom<kWidth>] = {}, factor[kRoom<kWidth>];
    const float slope = desc.activation ? desc.negative_slope : 1.0F;
    for_window(at, [&](int, const Pixel& pixel) {
      const T* x = v_pixel(pixel) + c0;
      std::uint8_t positive[kRoom<kWidth>] = {};
      for (int i = 0; i < n; ++i) {
        const float value = static_cast<float>(x[i]) + (bias != nullptr ? bias[c0 + i] : 0.0F);
        positive[i] = value > 0.0F ? 1 : 0;
        sum[i] += value > 0.0F ? value : value * slope;
      }
      if (desc.activation && saved != nullptr) {
        std::uint8_t* bits = sign_bits(pixel, c0);
        for (int byte = 0; byte < (n + 7) / 8; ++byte) {
          unsigned packed = 0;
          for (int bit = 0; bit < 8; ++bit) packed |= static_cast<unsigned>(positive[byte * 8 + bit]) << bit;
          bits[byte] = static_cast<std::uint8_t>(packed);
        }
      }
    });
    draw(random, at.sample, y_index(at), c0, factor);
    T* out = y_pixel(at) + c0;
    const float scale = 1.0F / static_cast<float>(desc.pool.window.volume());
    for (int i = 0; i < n; ++i) out[i] = static_cast<T>(sum[i] * scale * factor[i]);
  }

  // The bias' gradient is summed over the window first: one addition to memory per window.
  template <int kWidth>
  KOKKOS_INLINE_FUNCTION void scatter_average(const RandomStream& random, const Pixel& at, std::int64_t c0,
                                              int count) const {
    const int n = kWidth > 0 ? kWidth : count;
    float g[kRoom<kWidth>], sum[kRoom<kWidth>] = {};
    draw(random, at.sample, y_index(at), c0, g);
    const T* gradient = y_pixel(at) + c0;
    const float scale = 1.0F / static_cast<float>(desc.pool.window.volume()), slope = desc.negative_slope;
    for (int i = 0; i < n; ++i) g[i] *= static_cast<float>(gradient[i]) * scale;
    for_window(at, [&](int, const Pixel& pixel) {
      T* x = v_pixel(pixel) + c0;
      const std::uint8_t* bits = desc.activation ? sign_bits(pixel, c0) : nullptr;
      for (int byte = 0; byte * 8 < n; ++byte) {
        const unsigned positive = bits != nullptr ? bits[byte] : 0xFFU;
        const auto channel = [&](int bit) {
          const int i = byte * 8 + bit;
          const float value = (positive >> bit & 1U) != 0 ? g[i] : g[i] * slope;
          x[i] = static_cast<T>(value);
          sum[i] += value;
        };
        if (byte * 8 + 8 <= n) {
          for (int bit = 0; bit < 8; ++bit) channel(bit);
        } else {
          for (int bit = 0; byte * 8 + bit < n; ++bit) channel(bit);
        }
      }
    });
    if (bias_gradient == nullptr) return;
    for (int i = 0; i < n; ++i) bias_gradient[c0 + i] += sum[i];
  }

  // Of a pixel of y: what reaches the input, and which position of the window.
  template <int kWidth>
  KOKKOS_INLINE_FUNCTION void read_gradient(std::int64_t sample, std::int64_t y_pixel, std::int64_t c0, int count,
                                            float (&g)[kRoom<kWidth>], std::int32_t (&position)[kRoom<kWidth>]) const {
    using Bits = CodeBits<Code>;
    const int n = kWidth > 0 ? kWidth : count;
    const T* gradient = y + (sample * desc.y.pixels() + y_pixel) * y_stride + c0;
    if (saved == nullptr) {  // neither pooling nor activation nor dropout
      for (int i = 0; i < n; ++i) {
        g[i] = static_cast<float>(gradient[i]);
        position[i] = 0;
      }
      return;
    }
    const float scale = dropout ? 1.0F / (1.0F - desc.dropout) : 1.0F;
    const Code* code = codes(sample, y_pixel, c0);
    for (int i = 0; i < n; ++i) {
      const float slope = (code[i] & Bits::kNegative) != 0 ? desc.negative_slope : 1.0F;
      g[i] = (code[i] & Bits::kDead) != 0 ? 0.0F : static_cast<float>(gradient[i]) * (scale * slope);
      position[i] = code[i] & Bits::kIndex;
    }
  }
};

enum class Work { kForward, kScatter, kGather };

/// A pass over the pixels of some rows of y (forward, scatter) or v (gather), all channels.
template <class T, class Code, Work kWork>
struct Rows {
  Blocks<T, Code> blocks;
  RowRange rows;

  // Blocks of channels per item: all of them on the host.
  KOKKOS_INLINE_FUNCTION std::int64_t chunks() const { return kOnHost ? 1 : (blocks.desc.y.c + kBlock - 1) / kBlock; }
  KOKKOS_INLINE_FUNCTION Extent extent() const {
    return kWork == Work::kGather ? blocks.desc.v.extent() : blocks.desc.y.extent();
  }
  KOKKOS_INLINE_FUNCTION std::int64_t row_pixels() const {
    const Extent e = extent();
    return blocks.rows_are_d ? e.h * e.w : e.w;
  }
  std::int64_t items() const { return rows.samples() * rows.rows() * row_pixels() * chunks(); }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t chunk = item % chunks(), pixel = item / chunks() % row_pixels();
    const std::int64_t row = item / chunks() / row_pixels();
    const std::int64_t sample = rows.sample_begin + row / rows.rows(), r = rows.begin + row % rows.rows();
    const Extent e = extent();
    const Pixel at = blocks.rows_are_d ? Pixel{sample, r, pixel / e.w, pixel % e.w} : Pixel{sample, 0, r, pixel};
    channels(blocks.stream(), at, chunk * kBlock, kOnHost ? blocks.desc.y.c : std::int64_t{kBlock});
  }

  /// One pixel after the other, in the calling thread.
  void run() const {
    const Extent e = extent();
    const RandomStream random = blocks.stream();
    const Range d = blocks.rows_are_d ? Range{rows.begin, rows.end} : Range{0, 1};
    const Range h = blocks.rows_are_d ? Range{0, e.h} : Range{rows.begin, rows.end};
    for (std::int64_t sample = rows.sample_begin; sample < rows.sample_end; ++sample) {
      for (std::int64_t od = d.begin; od < d.end; ++od) {
        for (std::int64_t oh = h.begin; oh < h.end; ++oh) {
          for (std::int64_t ow = 0; ow < e.w; ++ow) channels(random, {sample, od, oh, ow}, 0, blocks.desc.y.c);
        }
      }
    }
  }

 private:
  KOKKOS_INLINE_FUNCTION void channels(const RandomStream& random, const Pixel& at, std::int64_t begin,
                                       std::int64_t count) const {
    const std::int64_t all = blocks.desc.y.c, end = begin + count < all ? begin + count : all;
    std::int64_t c0 = begin;
    for (; c0 + kBlock <= end; c0 += kBlock) block<kBlock>(random, at, c0, kBlock);
    if constexpr (kNarrow < kBlock) {
      for (; c0 + kNarrow <= end; c0 += kNarrow) block<kNarrow>(random, at, c0, kNarrow);
    }
    if (c0 < end) block<0>(random, at, c0, static_cast<int>(end - c0));
  }
  template <int kWidth>
  KOKKOS_INLINE_FUNCTION void block(const RandomStream& random, const Pixel& at, std::int64_t c0, int count) const {
    if constexpr (kWork == Work::kForward) {
      blocks.template forward<kWidth>(random, at, c0, count);
    } else if constexpr (kWork == Work::kScatter) {
      blocks.template scatter<kWidth>(random, at, c0, count);
    } else {
      blocks.template gather<kWidth>(random, at, c0, count);
    }
  }
};

}  // namespace petaflow::epilogue
