#include "kernels/epilogue.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "kernels/conv.hpp"

namespace petaflow {

namespace {

// Channels handled at once: the per-channel state stays in L1 and the loops over it vectorise.
constexpr int kBlock = 64;
// Dropout draws 16 bits per element; a Philox block of 128 bits serves 8 neighbouring channels of a pixel.
constexpr int kDrawsPerBlock = 8;
constexpr int kLanes = kBlock / kDrawsPerBlock;

// A saved code: position in the window, and what became of the value.
template <class Code>
struct CodeBits {
  static constexpr Code kDead = Code(1) << (8 * sizeof(Code) - 1);      // no gradient passes
  static constexpr Code kNegative = Code(1) << (8 * sizeof(Code) - 2);  // the negative slope applies
  static constexpr Code kIndex = kNegative - 1;
};

struct Range {
  std::int64_t begin, end;
};

// Windows that touch the inputs [begin, end) of a direction.
Range windows_over(const Range& inputs, std::int64_t window, std::int64_t stride, std::int64_t pad,
                   std::int64_t outputs) {
  const std::int64_t lowest = inputs.begin + pad - (window - 1);
  const std::int64_t first = lowest <= 0 ? 0 : (lowest + stride - 1) / stride;
  const std::int64_t last = (inputs.end - 1 + pad) / stride;
  return {first, std::min(last + 1, outputs)};
}

// Multiplies each of the `count` values starting at channel c0 by 0 or 1 / keep.  The same numbers as
// stream(sample, block) with block = pixel * ceil(C / 8) + channel / 8, eight blocks side by side so that they
// vectorise.
void dropout_factors(const RandomStream& stream, std::int64_t sample, std::int64_t first_block, float probability,
                     float (&factor)[kBlock]) {
  std::uint32_t a[kLanes], b[kLanes], c[kLanes], d[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto block = static_cast<std::uint64_t>(first_block + lane);
    a[lane] = static_cast<std::uint32_t>(sample);
    b[lane] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(sample) >> 32);
    c[lane] = static_cast<std::uint32_t>(block);
    d[lane] = static_cast<std::uint32_t>(block >> 32);
  }
  philox_rounds<kLanes>(a, b, c, d, stream.key0, stream.key1);
  const auto threshold = static_cast<std::uint32_t>(std::lround(probability * 65536.0F));
  const float scale = 1.0F / (1.0F - probability);
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::uint32_t words[4] = {a[lane], b[lane], c[lane], d[lane]};
    for (int i = 0; i < kDrawsPerBlock; ++i) {
      const std::uint32_t draw = (words[i / 2] >> (16 * (i % 2))) & 0xFFFFU;
      factor[lane * kDrawsPerBlock + i] = draw >= threshold ? scale : 0.0F;
    }
  }
}

}  // namespace

Extent PoolGeometry::output(const Extent& in) const {
  return {window_output(in.d, window.d, stride.d, 1, pad.d, pad.d),
          window_output(in.h, window.h, stride.h, 1, pad.h, pad.h),
          window_output(in.w, window.w, stride.w, 1, pad.w, pad.w)};
}

std::int64_t EpilogueDesc::saved_bytes_per_sample() const {
  if (!saves()) return 0;
  if (pool.kind == PoolKind::kAverage) return activation ? v.pixels() * ((v.c + 7) / 8) : 0;
  return y.sample_size() * (pool.window.volume() <= CodeBits<std::uint8_t>::kIndex + 1 ? 1 : 2);
}

Epilogue::Epilogue(const EpilogueDesc& desc, const float* bias, const Tensor& y, const Tensor& dy, std::uint8_t* saved)
    : desc_(desc), bias_(bias), y_(y), dy_(dy), saved_(saved), rows_are_d_(desc.v.d > 1) {
  PETAFLOW_REQUIRE(desc.pool.kind == PoolKind::kAverage || desc.pool.window.volume() <= kLargestMaxWindow,
                   "a pooling window of {} pixels", desc.pool.window.volume());
}

static_assert(CodeBits<std::uint16_t>::kIndex + 1 == kLargestMaxWindow);

RowRange Epilogue::v_rows(const RowRange& y_rows) const {
  const PoolGeometry& pool = desc_.pool;
  const std::int64_t window = rows_are_d_ ? pool.window.d : pool.window.h;
  const std::int64_t stride = rows_are_d_ ? pool.stride.d : pool.stride.h;
  const std::int64_t pad = rows_are_d_ ? pool.pad.d : pool.pad.h;
  const std::int64_t rows = rows_are_d_ ? desc_.v.d : desc_.v.h;
  RowRange v = y_rows;
  v.begin = std::max<std::int64_t>(0, y_rows.begin * stride - pad);
  v.end = std::min(rows, (y_rows.end - 1) * stride - pad + window);
  return v;
}

namespace {

// One call's operands, plain data.
template <class T, class Code>
struct Pass {
  EpilogueDesc desc;
  RowRange v_range;
  bool rows_are_d;
  T* v;  // first pixel of the buffer (const in forward)
  const float* bias;
  T* y;  // y or dy
  std::int64_t y_stride;
  std::uint8_t* saved;
  float* bias_gradient;
  RandomStream stream;
  const std::int64_t* sample_ids;
  bool dropout;

  // The pixel (d, h, w) of a sample in the buffer; the row must lie in v_range.
  T* v_pixel(std::int64_t sample, std::int64_t d, std::int64_t h, std::int64_t w) const {
    const std::int64_t local = (sample - v_range.sample_begin) * v_range.rows() + (rows_are_d ? d : h) - v_range.begin;
    const std::int64_t pixel = rows_are_d ? (local * desc.v.h + h) * desc.v.w + w : local * desc.v.w + w;
    return v + pixel * desc.v.c;
  }
  std::int64_t y_index(std::int64_t od, std::int64_t oh, std::int64_t ow) const {
    return (od * desc.y.h + oh) * desc.y.w + ow;
  }
  std::uint8_t* sign_bits(std::int64_t sample, std::int64_t d, std::int64_t h, std::int64_t w, std::int64_t c0) const {
    const std::int64_t pixel = (d * desc.v.h + h) * desc.v.w + w;
    return saved + sample * desc.saved_bytes_per_sample() + pixel * ((desc.v.c + 7) / 8) + c0 / 8;
  }
  Code* codes(std::int64_t sample, std::int64_t y_pixel, std::int64_t c0) const {
    return reinterpret_cast<Code*>(saved + sample * desc.saved_bytes_per_sample()) + y_pixel * desc.y.c + c0;
  }

  // Calls f(tap, d, h, w) for the pixels of a window that lie in the tensor, and in v_range if `clip_rows`.
  template <class F>
  void for_window(std::int64_t od, std::int64_t oh, std::int64_t ow, F&& f) const {
    const PoolGeometry& pool = desc.pool;
    int tap = 0;
    for (std::int64_t kd = 0; kd < pool.window.d; ++kd) {
      const std::int64_t d = od * pool.stride.d - pool.pad.d + kd;
      for (std::int64_t kh = 0; kh < pool.window.h; ++kh) {
        const std::int64_t h = oh * pool.stride.h - pool.pad.h + kh;
        const std::int64_t row = rows_are_d ? d : h;
        const bool inside =
            d >= 0 && d < desc.v.d && h >= 0 && h < desc.v.h && row >= v_range.begin && row < v_range.end;
        for (std::int64_t kw = 0; kw < pool.window.w; ++kw, ++tap) {
          const std::int64_t w = ow * pool.stride.w - pool.pad.w + kw;
          if (inside && w >= 0 && w < desc.v.w) f(tap, d, h, w);
        }
      }
    }
  }

  void draw(std::int64_t sample, std::int64_t y_pixel, std::int64_t c0, float (&factor)[kBlock]) const {
    if (!dropout) {
      std::fill(factor, factor + kBlock, 1.0F);
      return;
    }
    const std::int64_t blocks_per_pixel = (desc.y.c + kDrawsPerBlock - 1) / kDrawsPerBlock;
    dropout_factors(stream, sample_ids[sample], y_pixel * blocks_per_pixel + c0 / kDrawsPerBlock, desc.dropout, factor);
  }

  template <bool kFull>
  void forward_max(std::int64_t sample, std::int64_t od, std::int64_t oh, std::int64_t ow, std::int64_t c0,
                   int count) const {
    using Bits = CodeBits<Code>;
    const int n = kFull ? kBlock : count;
    float best[kBlock], factor[kBlock];
    std::int32_t position[kBlock];
    std::fill(best, best + kBlock, -std::numeric_limits<float>::infinity());
    std::fill(position, position + kBlock, 0);
    for_window(od, oh, ow, [&](int tap, std::int64_t d, std::int64_t h, std::int64_t w) {
      const T* x = v_pixel(sample, d, h, w) + c0;
      for (int i = 0; i < n; ++i) {
        const float value = static_cast<float>(x[i]);
        // The first of equal values wins, as in PyTorch; a NaN wins over everything and is passed on.
        const bool better = value > best[i] || value != value;
        best[i] = better ? value : best[i];
        position[i] = better ? tap : position[i];
      }
    });
    const std::int64_t y_pixel = y_index(od, oh, ow);
    draw(sample, y_pixel, c0, factor);
    T* out = y + (sample * desc.y.pixels() + y_pixel) * y_stride + c0;
    Code* code = saved != nullptr ? codes(sample, y_pixel, c0) : nullptr;
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

  template <bool kFull>
  void forward_average(std::int64_t sample, std::int64_t od, std::int64_t oh, std::int64_t ow, std::int64_t c0,
                       int count) const {
    const int n = kFull ? kBlock : count;
    float sum[kBlock] = {}, factor[kBlock];
    const float slope = desc.activation ? desc.negative_slope : 1.0F;
    for_window(od, oh, ow, [&](int, std::int64_t d, std::int64_t h, std::int64_t w) {
      const T* x = v_pixel(sample, d, h, w) + c0;
      std::uint8_t positive[kBlock] = {};
      for (int i = 0; i < n; ++i) {
        const float value = static_cast<float>(x[i]) + (bias != nullptr ? bias[c0 + i] : 0.0F);
        positive[i] = value > 0.0F ? 1 : 0;
        sum[i] += value > 0.0F ? value : value * slope;
      }
      if (desc.activation && saved != nullptr) {
        std::uint8_t* bits = sign_bits(sample, d, h, w, c0);
        for (int byte = 0; byte < (n + 7) / 8; ++byte) {
          unsigned packed = 0;
          for (int bit = 0; bit < 8; ++bit) packed |= static_cast<unsigned>(positive[byte * 8 + bit]) << bit;
          bits[byte] = static_cast<std::uint8_t>(packed);
        }
      }
    });
    const std::int64_t y_pixel = y_index(od, oh, ow);
    draw(sample, y_pixel, c0, factor);
    T* out = y + (sample * desc.y.pixels() + y_pixel) * y_stride + c0;
    const float scale = 1.0F / static_cast<float>(desc.pool.window.volume());
    for (int i = 0; i < n; ++i) out[i] = static_cast<T>(sum[i] * scale * factor[i]);
  }

  // Windows that tile write each pixel once; overlapping ones add to a buffer of zeros.
  template <bool kFull>
  void backward_max(std::int64_t sample, std::int64_t od, std::int64_t oh, std::int64_t ow, std::int64_t c0,
                    int count) const {
    using Bits = CodeBits<Code>;
    const int n = kFull ? kBlock : count;
    const std::int64_t y_pixel = y_index(od, oh, ow);
    const T* gradient = y + (sample * desc.y.pixels() + y_pixel) * y_stride + c0;
    const float scale = dropout ? 1.0F / (1.0F - desc.dropout) : 1.0F;
    float g[kBlock];
    std::int32_t position[kBlock];
    if (saved == nullptr) {  // neither pooling nor activation nor dropout
      for (int i = 0; i < n; ++i) {
        g[i] = static_cast<float>(gradient[i]);
        position[i] = 0;
      }
    } else {
      const Code* code = codes(sample, y_pixel, c0);
      for (int i = 0; i < n; ++i) {
        const float slope = (code[i] & Bits::kNegative) != 0 ? desc.negative_slope : 1.0F;
        g[i] = (code[i] & Bits::kDead) != 0 ? 0.0F : static_cast<float>(gradient[i]) * (scale * slope);
        position[i] = code[i] & Bits::kIndex;
      }
    }
    const bool assign = desc.pool.tiles();
    for_window(od, oh, ow, [&](int tap, std::int64_t d, std::int64_t h, std::int64_t w) {
      T* x = v_pixel(sample, d, h, w) + c0;
      if (assign) {
        for (int i = 0; i < n; ++i) x[i] = static_cast<T>(position[i] == tap ? g[i] : 0.0F);
      } else {
        for (int i = 0; i < n; ++i)
          x[i] = static_cast<T>(static_cast<float>(x[i]) + (position[i] == tap ? g[i] : 0.0F));
      }
      if (bias_gradient != nullptr) {
        for (int i = 0; i < n; ++i) bias_gradient[c0 + i] += position[i] == tap ? g[i] : 0.0F;
      }
    });
  }

  template <bool kFull>
  void backward_average(std::int64_t sample, std::int64_t od, std::int64_t oh, std::int64_t ow, std::int64_t c0,
                        int count) const {
    const int n = kFull ? kBlock : count;
    const std::int64_t y_pixel = y_index(od, oh, ow);
    const T* gradient = y + (sample * desc.y.pixels() + y_pixel) * y_stride + c0;
    float g[kBlock];
    draw(sample, y_pixel, c0, g);
    const float scale = 1.0F / static_cast<float>(desc.pool.window.volume());
    for (int i = 0; i < n; ++i) g[i] *= static_cast<float>(gradient[i]) * scale;
    for_window(od, oh, ow, [&](int, std::int64_t d, std::int64_t h, std::int64_t w) {
      T* x = v_pixel(sample, d, h, w) + c0;
      const std::uint8_t* bits = desc.activation ? sign_bits(sample, d, h, w, c0) : nullptr;
      for (int i = 0; i < n; ++i) {
        const bool positive = bits == nullptr || ((bits[i / 8] >> (i % 8)) & 1) != 0;
        const float value = positive ? g[i] : g[i] * desc.negative_slope;
        x[i] = static_cast<T>(static_cast<float>(x[i]) + value);
        if (bias_gradient != nullptr) bias_gradient[c0 + i] += value;
      }
    });
  }

  template <bool kForward>
  void pixel(std::int64_t sample, std::int64_t od, std::int64_t oh, std::int64_t ow) const {
    const bool average = desc.pool.kind == PoolKind::kAverage;
    const auto channels = static_cast<int>(desc.y.c);
    for (int c0 = 0; c0 < channels; c0 += kBlock) {
      const int count = std::min(kBlock, channels - c0);
      const auto call = [&](auto full) {
        constexpr bool kFull = decltype(full)::value;
        if constexpr (kForward) {
          average ? forward_average<kFull>(sample, od, oh, ow, c0, count)
                  : forward_max<kFull>(sample, od, oh, ow, c0, count);
        } else {
          average ? backward_average<kFull>(sample, od, oh, ow, c0, count)
                  : backward_max<kFull>(sample, od, oh, ow, c0, count);
        }
      };
      count == kBlock ? call(std::true_type{}) : call(std::false_type{});
    }
  }

  // All pixels of the rows [rows.begin, rows.end) of y.
  template <bool kForward>
  void rows(const RowRange& rows) const {
    const Extent& extent = desc.y.extent();
    const Range d = rows_are_d ? Range{rows.begin, rows.end} : Range{0, 1};
    const Range h = rows_are_d ? Range{0, extent.h} : Range{rows.begin, rows.end};
    for (std::int64_t sample = rows.sample_begin; sample < rows.sample_end; ++sample) {
      for (std::int64_t od = d.begin; od < d.end; ++od) {
        for (std::int64_t oh = h.begin; oh < h.end; ++oh) {
          for (std::int64_t ow = 0; ow < extent.w; ++ow) pixel<kForward>(sample, od, oh, ow);
        }
      }
    }
  }
};

template <class T, bool kForward>
void run(const EpilogueDesc& desc, const Context& context, const RowRange& y_rows, const RowRange& v_rows, T* v,
         const float* bias, const Tensor& y, std::uint8_t* saved, float* bias_gradient) {
  const bool dropout = desc.dropout > 0 && context.training;
  RandomStream stream;
  const std::int64_t* samples = nullptr;
  if (dropout) {
    stream = layer_stream(*context.step, RandomPurpose::kDropout, desc.layer);
    samples = context.step->sample;
  }
  const auto launch = [&](auto code) {
    const Pass<T, decltype(code)> pass{desc,           v_rows, desc.v.d > 1,  v,      bias,    static_cast<T*>(y.data),
                                       y.pixel_stride, saved,  bias_gradient, stream, samples, dropout};
    pass.template rows<kForward>(y_rows);
  };
  desc.pool.window.volume() <= CodeBits<std::uint8_t>::kIndex + 1 ? launch(std::uint8_t{}) : launch(std::uint16_t{});
}

}  // namespace

void Epilogue::forward(const Context& context, const RowRange& y_rows, const RowRange& v_rows, const void* v) const {
  std::uint8_t* saved = context.training ? saved_ : nullptr;
  if (desc_.type == DType::kF32) {
    run<float, true>(desc_, context, y_rows, v_rows, static_cast<float*>(const_cast<void*>(v)), bias_, y_, saved,
                     nullptr);
  } else {
    run<Bf16, true>(desc_, context, y_rows, v_rows, static_cast<Bf16*>(const_cast<void*>(v)), bias_, y_, saved,
                    nullptr);
  }
}

void Epilogue::backward(const Context& context, const RowRange& v_rows, void* dv, float* bias_gradient) const {
  const PoolGeometry& pool = desc_.pool;
  const Range range =
      rows_are_d_ ? windows_over({v_rows.begin, v_rows.end}, pool.window.d, pool.stride.d, pool.pad.d, desc_.y.d)
                  : windows_over({v_rows.begin, v_rows.end}, pool.window.h, pool.stride.h, pool.pad.h, desc_.y.h);
  RowRange y_rows = v_rows;
  y_rows.begin = range.begin;
  y_rows.end = std::max(range.begin, range.end);
  // Windows that tile assign every pixel, unless they leave a rest or are averages (which add).
  const Extent covered{desc_.y.d * pool.stride.d, desc_.y.h * pool.stride.h, desc_.y.w * pool.stride.w};
  if (!pool.tiles() || covered != desc_.v.extent() || pool.kind == PoolKind::kAverage) {
    const std::int64_t row_pixels = desc_.v.pixels() / (rows_are_d_ ? desc_.v.d : desc_.v.h);
    const std::int64_t elements = v_rows.samples() * v_rows.rows() * row_pixels * desc_.v.c;
    std::fill_n(static_cast<std::byte*>(dv), static_cast<std::size_t>(elements) * size_of(desc_.type), std::byte{0});
  }
  if (desc_.type == DType::kF32) {
    run<float, false>(desc_, context, y_rows, v_rows, static_cast<float*>(dv), bias_, dy_, saved_, bias_gradient);
  } else {
    run<Bf16, false>(desc_, context, y_rows, v_rows, static_cast<Bf16*>(dv), bias_, dy_, saved_, bias_gradient);
  }
}

}  // namespace petaflow
