// Forward and backward weights of convolutions with few input channels, as first layers have: one sum over all taps and
// channels, with a pointer for each of them.  Host only, f32, one box at a time in the calling thread.
#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "kernels/conv.hpp"
#include "kernels/conv_packing.hpp"
#include "kernels/launch.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow {
namespace narrow {
namespace {

using lanes::Floats;
using lanes::kBlock;
using lanes::kLanes;
using lanes::unrolled;
using portable::PackedOrder;
using portable::PackWeights;

constexpr std::int64_t kMostSources = 160;  // taps times channels

/// What the pixels [begin, end) of a row of y read: source s (tap, channel) of pixel begin + i is at[s][i step].
struct Row {
  const float* const* at;
  std::int64_t begin, end, step;
  float* y;  // pixel `begin`
};

/// Calls f(row) for all pixels of a box: long rows where every tap lies inside, single pixels at the ends.
template <class F>
void for_rows(const ConvDesc& desc, const ConvArgs& args, const F& f) {
  const ConvGeometry& g = desc.geometry;
  const auto* x = static_cast<const float*>(args.x);
  auto* y = static_cast<float*>(args.y);
  const std::int64_t step = g.stride.w * desc.x_strides.w, reach = (g.kernel.w - 1) * g.dilation.w - g.pad_begin.w;
  // Pixels [lo, hi) read inside: 0 <= o stride - pad, o stride + reach < in.w.
  const std::int64_t hi_end = desc.in.w - reach;
  const std::int64_t hi = std::clamp<std::int64_t>(hi_end <= 0 ? 0 : (hi_end - 1) / g.stride.w + 1, 0, desc.out.w);
  const std::int64_t lo = std::min(hi, (g.pad_begin.w + g.stride.w - 1) / g.stride.w);
  thread_local std::vector<float> zeros;  // what a row outside reads
  zeros.assign(static_cast<std::size_t>(std::max<std::int64_t>(1, hi - lo) * step), 0.0F);

  const float* at[kMostSources];
  float edge[kMostSources];
  const float* at_edge[kMostSources];
  for (std::int64_t s = 0; s < kMostSources; ++s) at_edge[s] = edge + s;
  for (std::int64_t row = 0; row < desc.n * desc.out.d * desc.out.h; ++row) {
    const std::int64_t oh = row % desc.out.h, od = row / desc.out.h % desc.out.d,
                       sample = row / desc.out.h / desc.out.d;
    float* to = y + sample * desc.y_strides.n + od * desc.y_strides.d + oh * desc.y_strides.h;
    // Calls f(s, line, iw) for all sources: where their row begins (null: outside) and which pixel pixel `o` reads
    // there.
    const auto for_sources = [&](std::int64_t o, const auto& source) {
      std::int64_t s = 0;
      for (std::int64_t td = 0; td < g.kernel.d; ++td) {
        for (std::int64_t th = 0; th < g.kernel.h; ++th) {
          const std::int64_t id = od * g.stride.d + td * g.dilation.d - g.pad_begin.d,
                             ih = oh * g.stride.h + th * g.dilation.h - g.pad_begin.h;
          const bool inside = id >= 0 && id < desc.in.d && ih >= 0 && ih < desc.in.h;
          const float* line =
              inside ? x + sample * desc.x_strides.n + id * desc.x_strides.d + ih * desc.x_strides.h : nullptr;
          for (std::int64_t tw = 0; tw < g.kernel.w; ++tw) {
            const std::int64_t iw = o * g.stride.w + tw * g.dilation.w - g.pad_begin.w;
            for (std::int64_t c = 0; c < desc.in_channels; ++c) source(s++, line == nullptr ? nullptr : line + c, iw);
          }
        }
      }
    };
    if (lo < hi) {
      for_sources(lo, [&](std::int64_t s, const float* line, std::int64_t iw) {
        at[s] = line == nullptr ? zeros.data() : line + iw * desc.x_strides.w;
      });
      f(Row{at, lo, hi, step, to + lo * desc.y_strides.w});
    }
    for (std::int64_t o = 0; o < desc.out.w; ++o) {
      if (o == lo) o = hi;
      if (o >= desc.out.w) break;
      for_sources(o, [&](std::int64_t s, const float* line, std::int64_t iw) {
        edge[s] = line == nullptr || iw < 0 || iw >= desc.in.w ? 0.0F : line[iw * desc.x_strides.w];
      });
      f(Row{at_edge, o, o + 1, step, to + o * desc.y_strides.w});
    }
  }
}

/// kPixels pixels from `first` of a row, kVectors registers of channels of y.
template <int kPixels, int kVectors>
void convolve(const Row& row, std::int64_t first, std::int64_t y_step, std::int64_t sources, const float* weights,
              std::int64_t channel) {
  Floats sum[kPixels][kVectors] = {};
  for (std::int64_t s = 0; s < sources; ++s, weights += kVectors * kLanes) {
    const float* from = row.at[s] + first * row.step;
    Floats weight[kVectors];
    unrolled<kVectors>([&](auto v) { lanes::load(weights + v * kLanes, weight[v]); });
    unrolled<kPixels>([&](auto p) {
      const float value = from[p * row.step];
      unrolled<kVectors>([&](auto v) { lanes::multiply_add(sum[p][v], value, weight[v]); });
    });
  }
  unrolled<kPixels>([&](auto p) {
    unrolled<kVectors>(
        [&](auto v) { lanes::store(row.y + (first + p) * y_step + channel + v * kLanes, kLanes, sum[p][v]); });
  });
}

/// Sources [first, first + kSources) times kVectors registers of channels of dy, over a row.
template <int kSources, int kVectors>
void correlate(const Row& row, std::int64_t first, std::int64_t y_step, std::int64_t channel, float* gradient) {
  Floats sum[kSources][kVectors];
  unrolled<kSources>([&](auto s) {
    unrolled<kVectors>([&](auto v) { lanes::load(gradient + (s * kVectors + v) * kLanes, sum[s][v]); });
  });
  const float* from[kSources];
  unrolled<kSources>([&](auto s) { from[s] = row.at[first + s]; });
  const float* dy = row.y + channel;
  for (std::int64_t i = 0; i < (row.end - row.begin) * row.step; i += row.step, dy += y_step) {
    Floats value[kVectors];
    unrolled<kVectors>([&](auto v) { lanes::load(dy + v * kLanes, value[v]); });
    unrolled<kSources>(
        [&](auto s) { unrolled<kVectors>([&](auto v) { lanes::multiply_add(sum[s][v], from[s][i], value[v]); }); });
  }
  unrolled<kSources>([&](auto s) {
    unrolled<kVectors>([&](auto v) { lanes::store(gradient + (s * kVectors + v) * kLanes, kLanes, sum[s][v]); });
  });
}

class NarrowKernel final : public ConvKernel {
 public:
  NarrowKernel(Pass pass, std::span<const ConvDesc> boxes) : pass_(pass), boxes_(boxes.begin(), boxes.end()) {
    const ConvDesc& desc = boxes_.front();
    order_ = {1, desc.in_channels, desc.out_channels, desc.geometry.kernel.volume()};
    if (pass == Pass::kForward)
      packed_ = Packed("petaflow::conv::weights[narrow]", static_cast<std::size_t>(order_.elements()));
  }

  void refresh(const Context& context, const float* weights) override {
    if (pass_ != Pass::kForward) return;
    launch(context, "petaflow::conv::refresh[narrow]"_label, order_.elements(),
           PackWeights<false>{order_, false, weights, packed_.data()});
  }

  void run(const Context&, std::size_t box, const ConvArgs& args) override {
    const ConvDesc& desc = boxes_[box];
    const std::int64_t sources = order_.taps * order_.sources, y_step = desc.y_strides.w;
    for_rows(desc, args, [&](const Row& row) {
      for (std::int64_t block = 0; block < order_.blocks(); ++block) {
        with_constant<lanes::kVectors>(order_.width(block) / kLanes, [&](auto vectors) {
          // One register for each vector of the gradient, and one to spare.
          constexpr int kMost = (lanes::kRegisters - vectors - 1) / vectors;
          if (pass_ == Pass::kForward) {
            in_pieces(row.end - row.begin, lanes::kPoints, [&](std::int64_t first, std::int64_t pixels) {
              with_constant<lanes::kPoints>(pixels, [&](auto count) {
                convolve<count, vectors>(row, first, y_step, sources, packed_.data() + order_.block_begin(0, block),
                                         block * kBlock);
              });
            });
          } else {
            in_pieces(sources, kMost, [&](std::int64_t first, std::int64_t size) {
              with_constant<kMost>(size, [&](auto count) {
                correlate<count, vectors>(row, first, y_step, block * kBlock,
                                          args.sum + order_.block_begin(0, block) + first * vectors * kLanes);
              });
            });
          }
        });
      }
    });
  }

  std::int64_t gradient_elements() const override { return pass_ == Pass::kBackwardWeights ? order_.elements() : 0; }

  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    launch(context, "petaflow::conv::unpack_gradient[narrow]"_label, order_.elements(),
           PackWeights<true>{order_, false, sum, dw});
  }

  std::string detail() const override { return "narrow"; }

 private:
  using Packed = Kokkos::View<float*, Kokkos::HostSpace>;

  Pass pass_;
  std::vector<ConvDesc> boxes_;
  PackedOrder order_;
  Packed packed_;
};

std::string why_not(Pass pass, std::span<const ConvDesc> boxes) {
  const ConvDesc& desc = boxes.front();
  if (pass == Pass::kBackwardData) return "not for backward data";
  if (desc.type != DType::kF32) return "for f32 only";
  if (desc.in_channels >= kLanes || desc.in_channels * desc.geometry.kernel.volume() > kMostSources)
    return "for few input channels and taps only";
  if (desc.geometry.groups != 1 || desc.out_channels % kLanes != 0)
    return fmt::format("without groups and for multiples of {} output channels only", kLanes);
  if (std::ranges::any_of(boxes, [](const ConvDesc& box) { return box.threads != 1; }))
    return "on boxes for one thread only";
  return {};
}

std::unique_ptr<ConvKernel> make(Pass pass, std::span<const ConvDesc> boxes) {
  return std::make_unique<NarrowKernel>(pass, boxes);
}

}  // namespace
}  // namespace narrow

extern const ConvImpl kConvNarrow;
const ConvImpl kConvNarrow = {"narrow", narrow::why_not, narrow::make, ConvScope::kSome};

}  // namespace petaflow
