// Depthwise convolutions, one filter for each channel: every pass reads its operands once from memory, in their order,
// and the taps of a block of pixels and channels from the caches.
#include <algorithm>

#include "base/element.hpp"
#include "base/error.hpp"
#include "base/scratch.hpp"
#include "kernels/conv_axis.hpp"
#include "kernels/conv_packing.hpp"
#include "kernels/depthwise_blocks.hpp"
#include "kernels/exact_sum.hpp"
#include "kernels/launch.hpp"

namespace petaflow {
namespace depthwise {
namespace {

using lanes::unrolled;
using portable::Axes;
using portable::Axis;
using portable::PackWeights;

/// target(o, c) = sum over taps of source(o, tap, c) weight(tap, c): forward and backward data.
template <class T>
struct Spread {
  Axes axes;
  PackedOrder order;
  std::int64_t segments, shares;
  const T* source;
  T* target;
  const float* weights;

  /// Pixels that are computed together: sums, taps of a row and a pixel of the source stay in registers.
  static constexpr int kMostPoints = kOnHost ? lanes::kPoints * 2 / 3 : lanes::kPoints;

  std::int64_t items() const { return axes.rows() * segments * shares; }

  /// A segment of a row, some blocks of channels.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const Share share(order.blocks(), item % shares, shares);
    item /= shares;
    const std::int64_t segment = item % segments;
    item /= segments;
    const std::int64_t oh = item % axes.h.targets;
    item /= axes.h.targets;
    const std::int64_t od = item % axes.d.targets, sample = item / axes.d.targets;
    const T* const from = source + sample * axes.source_n;
    T* const to = target + sample * axes.target_n + od * axes.d.target_stride + oh * axes.h.target_stride;
    axes.w.for_points<kMostPoints>(segment, segments, [&](std::int64_t phase, std::int64_t begin, auto count) {
      T* const pixels = to + (phase + begin * axes.w.divisor) * axes.w.target_stride;
      for (std::int64_t block = share.begin; block < share.end; ++block) {
        with_constant<lanes::kVectors>(order.width(block) / kLanes, [&](auto vectors) {
          compute<vectors, count>({od, oh, phase, begin, block}, from + block * kBlock, pixels + block * kBlock);
        });
      }
    });
  }

 private:
  struct Place {
    std::int64_t od, oh, phase, begin, block;
  };

  template <int kVectors, int kPoints>
  KOKKOS_INLINE_FUNCTION void compute(const Place& place, const T* from, T* to) const {
    const Axis &d = axes.d, &h = axes.h, &w = axes.w;
    const Channels<kVectors> channels(order, place.block);
    const float* const taps = weights + order.block_begin(0, place.block);
    Floats sum[kPoints][kVectors] = {};
    const std::int64_t last_d = d.source(place.od, d.taps - 1), last_h = h.source(place.oh, h.taps - 1),
                       next = (place.phase * w.scale + w.offset + (w.taps - 1) * w.tap_scale) / w.divisor +
                              (place.begin + kPoints) * w.scale;
    if (last_d >= 0 && last_h >= 0)
      fetch<kVectors>(from + last_d * d.source_stride + last_h * h.source_stride + next * w.source_stride,
                      w.scale * w.source_stride, kPoints);
    fetch<kVectors>(to + kPoints * w.divisor * w.target_stride, w.divisor * w.target_stride, kPoints);
    for (std::int64_t td = 0; td < d.taps; ++td) {
      const std::int64_t id = d.source(place.od, td);
      if (id < 0) continue;
      for (std::int64_t th = 0; th < h.taps; ++th) {
        const std::int64_t ih = h.source(place.oh, th);
        if (ih < 0) continue;
        const T* const line = from + id * d.source_stride + ih * h.source_stride;
        const float* const row = taps + (td * h.taps + th) * w.taps * kVectors * kLanes;
        if (kOnHost && w.taps == kSlides && w.scale == 1 && w.tap_scale == 1 && w.divisor == 1) {
          const std::int64_t first = w.offset + place.begin;
          if (first >= 0 && first + kPoints + kSlides - 1 <= w.sources) {
            slide<false>(channels, line, first, row, sum);
          } else {
            slide<true>(channels, line, first, row, sum);
          }
          continue;
        }
        for (std::int64_t tw = 0; tw < w.taps; ++tw) {
          const std::int64_t q = place.phase * w.scale + w.offset + tw * w.tap_scale;
          if (q % w.divisor != 0) continue;
          const std::int64_t first = q / w.divisor + place.begin * w.scale, last = first + (kPoints - 1) * w.scale;
          if (last < 0 || first >= w.sources) continue;
          Floats weight[kVectors];
          unrolled<kVectors>([&](auto v) { lanes::load(row + (tw * kVectors + v) * kLanes, weight[v]); });
          const auto add = [&](auto at_edge) {
            unrolled<kPoints>([&](auto p) {
              const std::int64_t pixel = first + p * w.scale;
              if (at_edge && (pixel < 0 || pixel >= w.sources)) return;
              Floats x[kVectors];
              channels.load(line + pixel * w.source_stride, x);
              unrolled<kVectors>([&](auto v) { lanes::multiply_add(sum[p][v], x[v], weight[v]); });
            });
          };
          first >= 0 && last < w.sources ? add(std::false_type{}) : add(std::true_type{});
        }
      }
    }
    unrolled<kPoints>([&](auto p) { channels.store(to + p * w.divisor * w.target_stride, sum[p]); });
  }

  /// Taps of a row of which each pixel of the source is read once, for all of them.
  static constexpr int kSlides = 3;

  /// sum += what a row of the source from pixel `first` on and a row of taps give, in the order of the taps.  Inlined
  /// by force: GCC 12 makes calls of it otherwise, with the sums in memory.
  template <bool kAtEdge, int kVectors, int kPoints>
  KOKKOS_FORCEINLINE_FUNCTION void slide(const Channels<kVectors>& channels, const T* line, std::int64_t first,
                                         const float* taps, Floats (&sum)[kPoints][kVectors]) const {
    Floats weight[kSlides][kVectors];
    unrolled<kSlides>([&](auto t) {
      unrolled<kVectors>([&](auto v) { lanes::load(taps + (t * kVectors + v) * kLanes, weight[t][v]); });
    });
    unrolled<kPoints + kSlides - 1>([&](auto q) {
      const std::int64_t pixel = first + q;
      if (kAtEdge && (pixel < 0 || pixel >= axes.w.sources)) return;
      Floats x[kVectors];
      channels.load(line + pixel * axes.w.source_stride, x);
      for (int t = 0; t < kSlides; ++t) {
        if (q - t < 0 || q - t >= kPoints) continue;
        for (int v = 0; v < kVectors; ++v) lanes::multiply_add(sum[q - t][v], x[v], weight[t][v]);
      }
    });
  }
};

template <class T>
class SpreadKernel final : public ConvKernel {
 public:
  SpreadKernel(Pass pass, std::span<const ConvDesc> tiles)
      : backward_(pass == Pass::kBackwardData), tiles_(tiles.begin(), tiles.end()), order_(order_of(tiles.front())) {}

  std::size_t packed_bytes() const override { return static_cast<std::size_t>(order_.elements()) * sizeof(float); }

  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    pack_weights(context, "petaflow::conv::pack[depthwise]"_label, order_, backward_, tiles_.front().weight_elements(),
                 weights, packed);
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const ConvDesc& desc = tiles_[tile];
    const Axes axes(desc, backward_);
    const std::int64_t shares = shares_of(order_);
    const Spread<T> spread{.axes = axes,
                           .order = order_,
                           .segments = axes.segments(axes.rows(), desc.threads),
                           .shares = shares,
                           .source = static_cast<const T*>(backward_ ? args.y : args.x),
                           .target = static_cast<T*>(backward_ ? args.x : args.y),
                           .weights = reinterpret_cast<const float*>(args.weights)};
    launch(context, desc.threads,
           backward_ ? "petaflow::conv::backward_data[depthwise]"_label : "petaflow::conv::forward[depthwise]"_label,
           spread.items(), spread);
  }

  std::string detail() const override { return fmt::format("depthwise {}x{}", Spread<T>::kMostPoints, kBlock); }

 private:
  bool backward_;
  std::vector<ConvDesc> tiles_;
  PackedOrder order_;
};

/// Sums over the rows of part r = item / shares, of the blocks of channels of share item % shares: some pixels in f32,
/// and these sums in double.
template <class T>
struct Correlate {
  ConvDesc desc;
  PackedOrder order;
  std::int64_t parts, shares;
  std::int64_t rows_in_f32;
  const T* x;
  const T* dy;
  float* some;    // of each part, order.elements(), contents undefined
  double* exact;  // of each part, =

  /// Pixels of a row that pass over all blocks of channels together.
  static constexpr std::int64_t kRun = 16;
  /// Taps along a row whose sums stay in registers.
  static constexpr int kMostTaps = kOnHost ? 5 : 3;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t part = item / shares;
    const Share share(order.blocks(), item % shares, shares);
    const std::int64_t rows = desc.n * desc.out.d * desc.out.h, begin = rows * part / parts,
                       end = rows * (part + 1) / parts;
    const std::int64_t first = order.block_begin(0, share.begin),
                       count = share.begin == share.end ? 0
                                                        : order.block_begin(0, share.end - 1) +
                                                              order.taps * order.width(share.end - 1) - first;
    float* const sums = some + part * order.elements();
    double* const total = exact + part * order.elements() + first;
    for (std::int64_t i = 0; i < count; ++i) {
      total[i] = 0;
      sums[first + i] = 0;
    }
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t o = 0; o < desc.out.w; o += kRun) {
        const std::int64_t behind = o + kRun < desc.out.w ? o + kRun : desc.out.w;
        for (std::int64_t block = share.begin; block < share.end; ++block) {
          with_constant<lanes::kVectors>(order.width(block) / kLanes, [&](auto vectors) {
            add_run<vectors>(row, o, behind, block, sums + order.block_begin(0, block));
          });
        }
      }
      if ((row + 1 - begin) % rows_in_f32 == 0 || row + 1 == end)
        move_sum(sums + first, total, static_cast<std::size_t>(count));
    }
  }

 private:
  /// Pixels [begin, end) of a row of dy with all that the taps of a block read of x.
  template <int kVectors>
  KOKKOS_INLINE_FUNCTION void add_run(std::int64_t row, std::int64_t begin, std::int64_t end, std::int64_t block,
                                      float* sums) const {
    const ConvGeometry& g = desc.geometry;
    const std::int64_t oh = row % desc.out.h, od = row / desc.out.h % desc.out.d,
                       sample = row / desc.out.h / desc.out.d;
    const T* const from = x + sample * desc.x_strides.n + block * kBlock;
    const T* const gradient =
        dy + sample * desc.y_strides.n + od * desc.y_strides.d + oh * desc.y_strides.h + block * kBlock;
    fetch<kVectors>(gradient + end * desc.y_strides.w, desc.y_strides.w, end - begin);
    for (std::int64_t td = 0; td < g.kernel.d; ++td) {
      const std::int64_t id = od * g.stride.d + td * g.dilation.d - g.pad_begin.d;
      if (id < 0 || id >= desc.in.d) continue;
      for (std::int64_t th = 0; th < g.kernel.h; ++th) {
        const std::int64_t ih = oh * g.stride.h + th * g.dilation.h - g.pad_begin.h;
        if (ih < 0 || ih >= desc.in.h) continue;
        const T* const line = from + id * desc.x_strides.d + ih * desc.x_strides.h;
        float* const of_line = sums + (td * g.kernel.h + th) * g.kernel.w * kVectors * kLanes;
        if (th + 1 == g.kernel.h)
          fetch<kVectors>(line + end * g.stride.w * desc.x_strides.w, g.stride.w * desc.x_strides.w, end - begin);
        for (std::int64_t tw = 0; tw < g.kernel.w; tw += kMostTaps) {
          with_constant<kMostTaps>(g.kernel.w - tw < kMostTaps ? g.kernel.w - tw : kMostTaps, [&](auto taps) {
            add_taps<kVectors, taps>(block, line, gradient, begin, end, tw, of_line + tw * kVectors * kLanes);
          });
        }
      }
    }
  }

  /// The first of pixels that read inside with a tap, and the one behind the last.
  struct Inside {
    std::int64_t begin, end;
    KOKKOS_INLINE_FUNCTION Inside(const ConvDesc& desc, std::int64_t tap) {
      const ConvGeometry& g = desc.geometry;
      const std::int64_t q = tap * g.dilation.w - g.pad_begin.w;
      begin = q >= 0 ? 0 : (-q + g.stride.w - 1) / g.stride.w;
      end = q >= desc.in.w ? 0 : (desc.in.w - 1 - q) / g.stride.w + 1;
    }
  };

  template <int kVectors, int kTaps>
  KOKKOS_INLINE_FUNCTION void add_taps(std::int64_t block, const T* line, const T* gradient, std::int64_t begin,
                                       std::int64_t end, std::int64_t tap, float* sums) const {
    const ConvGeometry& g = desc.geometry;
    const Channels<kVectors> channels(order, block);
    const std::int64_t tap_step = g.dilation.w * desc.x_strides.w, x_step = g.stride.w * desc.x_strides.w,
                       dy_step = desc.y_strides.w;
    const T* const origin = line + (tap * g.dilation.w - g.pad_begin.w) * desc.x_strides.w;
    const Inside first(desc, tap), last(desc, tap + kTaps - 1);
    const std::int64_t low = begin > first.begin ? begin : first.begin, high = end < last.end ? end : last.end;
    if constexpr (kTaps > 1) {  // pixels at the edges, for which only some of the taps read inside
      for (int t = 0; t < kTaps && (begin < low || high < end); ++t) {
        float* const of_tap = sums + t * kVectors * kLanes;
        if (begin < low) add_taps<kVectors, 1>(block, line, gradient, begin, low < end ? low : end, tap + t, of_tap);
        if (high < end && low < end)
          add_taps<kVectors, 1>(block, line, gradient, high > low ? high : low, end, tap + t, of_tap);
      }
    }
    if (low >= high) return;
    Floats sum[kTaps][kVectors];
    unrolled<kTaps>([&](auto t) {
      unrolled<kVectors>([&](auto v) { lanes::load(sums + (t * kVectors + v) * kLanes, sum[t][v]); });
    });
    if (kOnHost && x_step == tap_step) {  // a pixel of x is read once, for all taps
      Floats of_x[kTaps][kVectors];
      for (int t = 0; t < kTaps - 1; ++t) channels.load(origin + (low + t) * x_step, of_x[t]);
      for (std::int64_t o = low; o < high; ++o) {
        Floats of_dy[kVectors];
        channels.load(gradient + o * dy_step, of_dy);
        channels.load(origin + (o + kTaps - 1) * x_step, of_x[kTaps - 1]);
        unrolled<kTaps>([&](auto t) {
          for (int v = 0; v < kVectors; ++v) {
            lanes::multiply_add(sum[t][v], of_x[t][v], of_dy[v]);
            if constexpr (t > 0) of_x[t - 1][v] = of_x[t][v];
          }
        });
      }
    } else {
      for (std::int64_t o = low; o < high; ++o) {
        Floats of_dy[kVectors], of_x[kVectors];
        channels.load(gradient + o * dy_step, of_dy);
        unrolled<kTaps>([&](auto t) {
          channels.load(origin + o * x_step + t * tap_step, of_x);
          unrolled<kVectors>([&](auto v) { lanes::multiply_add(sum[t][v], of_x[v], of_dy[v]); });
        });
      }
    }
    unrolled<kTaps>([&](auto t) {
      unrolled<kVectors>([&](auto v) { lanes::store(sums + (t * kVectors + v) * kLanes, kLanes, sum[t][v]); });
    });
  }
};

/// sum += the sums of all parts, in their order.
struct AddExact {
  std::int64_t parts, elements;
  const double* exact;
  float* sum;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    double total = 0;
    for (std::int64_t part = 0; part < parts; ++part) total += exact[part * elements + i];
    sum[i] += static_cast<float>(total);
  }
};

template <class T>
class CorrelateKernel final : public ConvKernel {
 public:
  explicit CorrelateKernel(std::span<const ConvDesc> tiles)
      : tiles_(tiles.begin(), tiles.end()), order_(order_of(tiles.front())) {}

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const ConvDesc& desc = tiles_[tile];
    const Layout layout(*this, parts_of(desc));
    const Correlate<T> correlate{
        .desc = desc,
        .order = order_,
        .parts = parts_of(desc),
        .shares = shares_of(order_),
        .rows_in_f32 = std::max<std::int64_t>(1, kInF32 / std::max<std::int64_t>(1, desc.out.w)),
        .x = static_cast<const T*>(args.x),
        .dy = static_cast<const T*>(args.y),
        .some = reinterpret_cast<float*>(args.scratch + layout.some),
        .exact = reinterpret_cast<double*>(args.scratch + layout.exact)};
    launch(context, desc.threads, "petaflow::conv::backward_weights[depthwise]"_label,
           correlate.parts * correlate.shares, correlate);
    launch(context, desc.threads, "petaflow::conv::add_parts[depthwise]"_label, order_.elements(),
           AddExact{correlate.parts, order_.elements(), correlate.exact, args.sum});
  }

  std::size_t scratch_bytes() const override {
    std::size_t bytes = 0;
    for (const ConvDesc& desc : tiles_) bytes = std::max(bytes, Layout(*this, parts_of(desc)).bytes);
    return bytes;
  }
  std::int64_t gradient_elements() const override { return order_.elements(); }

  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    launch(context, "petaflow::conv::unpack_gradient[depthwise]"_label, tiles_.front().weight_elements(),
           PackWeights<true>{order_, false, sum, dw});
  }

  std::string detail() const override { return fmt::format("depthwise {}x{}", Correlate<T>::kRun, kBlock); }

 private:
  // Pixels whose gradients of weights are summed in f32, which is off by 1.8e-8 sqrt(512) = 4e-7 of their size.
  static constexpr std::int64_t kInF32 = 512;

  struct Layout {
    std::size_t some, exact, bytes;
    Layout(const CorrelateKernel& kernel, std::int64_t parts) {
      ScratchLayout layout;
      some = layout.add<float>(parts * kernel.order_.elements());
      exact = layout.add<double>(parts * kernel.order_.elements());
      bytes = layout.bytes();
    }
  };

  /// Parts of the rows: one for each thread of a host; on devices enough for all of them, within some memory.
  std::int64_t parts_of(const ConvDesc& desc) const {
    constexpr std::int64_t kItems = 65536, kElements = std::int64_t{1} << 22;
    const std::int64_t rows = std::max<std::int64_t>(1, desc.n * desc.out.d * desc.out.h);
    const std::int64_t wanted =
        kOnHost ? desc.threads : std::min(kItems / order_.blocks(), kElements / order_.elements());
    return std::clamp<std::int64_t>(wanted, 1, rows);
  }

  std::vector<ConvDesc> tiles_;
  PackedOrder order_;
};

std::string why_not(Pass /*pass*/, std::span<const ConvDesc> tiles) {
  const ConvDesc& desc = tiles.front();
  const bool takes = desc.geometry.groups == desc.in_channels && desc.in_channels == desc.out_channels;
  return takes && desc.in_channels > 1 ? "" : "for one filter per channel only";
}

template <class T>
std::unique_ptr<ConvKernel> make_typed(Pass pass, std::span<const ConvDesc> tiles) {
  if (pass == Pass::kBackwardWeights) return std::make_unique<CorrelateKernel<T>>(tiles);
  return std::make_unique<SpreadKernel<T>>(pass, tiles);
}

std::unique_ptr<ConvKernel> make(Pass pass, std::span<const ConvDesc> tiles) {
  std::unique_ptr<ConvKernel> kernel;
  with_element(tiles.front().type, [&]<class T>(T) { kernel = make_typed<T>(pass, tiles); });
  return kernel;
}

}  // namespace
}  // namespace depthwise

extern const ConvImpl kConvDepthwise;
const ConvImpl kConvDepthwise = {"depthwise", depthwise::why_not, depthwise::make, ConvScope::kSome};

}  // namespace petaflow
