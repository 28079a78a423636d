// Gradients of weights tap by tap: the product of x, as (channels of x, pixels), and dy, as (pixels, channels of y),
// over those pixels of dy for which the tap reads inside x.  Host only.
//
// A chunk of pixels at a time both operands are copied into panels, in which the channels of a block lie next to each
// other for pixel after pixel, in bf16 for pair after pair of pixels.  A panel of dy stays in the L1d cache while those
// of x, narrower ones, pass by; two panels make one block of the gradient in registers, which is then added to the sum
// in memory.
//
// For windows of one pixel no transform saves products.  Dilated ones read much padding where maps are small (3 x 3
// taps with dilation 18 on 24 x 36 pixels in two thirds of all products), which is left out here.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/scratch.hpp"
#include "kernels/conv.hpp"
#include "kernels/conv_axis.hpp"
#include "kernels/conv_packing.hpp"
#include "kernels/epilogue.hpp"
#include "kernels/lane_transpose.hpp"
#include "kernels/launch.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow {
namespace taps {
namespace {

using lanes::Floats;
using lanes::kBlock;
using lanes::kHeld;
using lanes::kLanes;
using lanes::Number;
using lanes::unrolled;
using lanes::Words;
using portable::Axes;
using portable::Axis;
using portable::PackedOrder;

/// Rows of a panel, of pixels or of pairs: one of dy takes 20 KiB, and one of x beside it 7.5.
constexpr std::int64_t kMostRows = 160;
template <class T>
constexpr std::int64_t kMostPixels = kMostRows * kHeld<T>;
/// Channels of x in a panel, and panels that are made at a time: they stay in an L2 cache of 1 MiB.
constexpr int kSources = lanes::kPoints;
constexpr std::int64_t kMostPanels = 64;
/// Rows that are added up in f32.
constexpr std::int64_t kMostSummed = 14336;
/// Channels of x and of y from which on the copies pay: 64 and 128 run at 57 % of the peak, oneDNN's at 80.
constexpr std::int64_t kFewestChannels = 128;
/// In bf16 those of the smaller and of the larger side: 256 and 256 run as oneDNN's, 728 at 88 % instead of 81 (Zen 4).
constexpr std::int64_t kFewestInBf16 = 256, kFewestOnOneSide = 512;

/// The numbers of the first `count` channels of a pixel, in bf16 with those of the next pixel.
template <class T>
lanes::Vector<Number<T>> numbers(const T* pixel, [[maybe_unused]] const T* next, int count) {
  Floats first;
  lanes::load_part(pixel, count, first);
  if constexpr (kHeld<T> == 1) {
    return first;
  } else {
    Floats second;
    lanes::load_part(next, count, second);
    return lanes::Pairs{__builtin_bit_cast(Words, first) >> 16 | __builtin_bit_cast(Words, second)};
  }
}

/// sum (kCount, kVectors registers) += x^T dy.
/// @param x   (rows, kSources)
/// @param dy  (rows, kVectors registers)
template <int kCount, int kVectors, class N>
void add_product(const N* x, const N* dy, std::int64_t rows, float* sum) {
  // It comes from the last cache while the products are summed.
  for (int line = 0; line < kCount * kVectors; ++line) __builtin_prefetch(sum + line * kLanes, 1);
  Floats block[kCount][kVectors] = {};
  for (std::int64_t r = 0; r < rows; ++r, x += kSources, dy += kVectors * kLanes) {
    lanes::Vector<N> gradient[kVectors];
    unrolled<kVectors>([&](auto v) { lanes::load(dy + v * kLanes, gradient[v]); });
    unrolled<kCount>(
        [&](auto c) { unrolled<kVectors>([&](auto v) { lanes::multiply_add(block[c][v], x[c], gradient[v]); }); });
  }
  unrolled<kCount>([&](auto c) {
    unrolled<kVectors>([&](auto v) {
      float* const to = sum + (c * kVectors + v) * kLanes;
      Floats before;
      lanes::load(to, before);
      lanes::store(to, kLanes, before + block[c][v]);
    });
  });
}

/// One tap of a window, and the pixels of dy for which it reads inside x.
class Tap {
 public:
  Tap(const Axes& axes, std::int64_t number)
      : axes_(axes),
        w_(number % axes.w.taps),
        h_(number / axes.w.taps % axes.h.taps),
        d_(number / axes.w.taps / axes.h.taps),
        columns_(inside(axes.w, w_)),
        rows_(inside(axes.h, h_)),
        planes_(inside(axes.d, d_)) {}

  std::int64_t pixels() const { return axes_.samples * planes_.size() * rows_.size() * columns_.size(); }

  /// Elements in front of the i-th of these pixels in dy, and of what the tap reads there in x.
  std::pair<std::int64_t, std::int64_t> find(std::int64_t i) const {
    const std::int64_t w = columns_.begin + i % columns_.size(), row = i / columns_.size(),
                       h = rows_.begin + row % rows_.size(), plane = row / rows_.size(),
                       d = planes_.begin + plane % planes_.size(), n = plane / planes_.size();
    const auto& [of_d, of_h, of_w, samples, source_n, target_n] = axes_;
    return {n * target_n + d * of_d.target_stride + h * of_h.target_stride + w * of_w.target_stride,
            n * source_n + of_d.source(d, d_) * of_d.source_stride + of_h.source(h, h_) * of_h.source_stride +
                of_w.source(w, w_) * of_w.source_stride};
  }

 private:
  static Interval inside(const Axis& axis, std::int64_t tap) {
    Interval targets{0, axis.targets};
    while (targets.begin < targets.end && axis.source(targets.begin, tap) < 0) ++targets.begin;
    while (targets.begin < targets.end && axis.source(targets.end - 1, tap) < 0) --targets.end;
    return targets;
  }

  Axes axes_;
  std::int64_t w_, h_, d_;
  Interval columns_, rows_, planes_;
};

/// Where the pixels of a chunk lie in x and dy; where the last pair lacks a pixel, zeros stand for it.
template <class T>
struct Pixels {
  std::int64_t rows = 0;  // of panels
  std::array<const T*, kMostPixels<T>> x, dy;
};

template <class T>
class TapsKernel final : public ConvKernel {
 public:
  explicit TapsKernel(std::span<const ConvDesc> tiles)
      : tiles_(tiles.begin(), tiles.end()),
        order_{1, tiles_.front().in_channels, tiles_.front().out_channels, tiles_.front().geometry.kernel.volume()},
        zeros_(static_cast<std::size_t>(std::max(order_.sources, order_.targets))) {
    ScratchLayout layout;
    scratch_.x = layout.add<Number<T>>(std::min(panels(), kMostPanels) * kMostRows * kSources);
    scratch_.dy = layout.add<Number<T>>(kMostRows * kBlock);
    scratch_.bytes = layout.bytes();
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const ConvDesc& desc = tiles_[tile];
    const std::int64_t shares = std::min<std::int64_t>(desc.threads, order_.blocks());
    launch(context, desc.threads, "petaflow::conv::backward_weights[taps]"_label, shares, [&](std::int64_t share) {
      const Interval blocks{order_.blocks() * share / shares, order_.blocks() * (share + 1) / shares};
      add_blocks(desc, args, blocks, args.scratch + static_cast<std::size_t>(share) * scratch_.bytes);
    });
  }

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(tiles_.front().threads) * scratch_.bytes;
  }
  std::int64_t gradient_elements() const override { return order_.elements(); }

  /// By squares of channels of x and of y, which are transposed in registers.
  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    const std::int64_t squares = ceil_div(order_.sources, kLanes), columns = ceil_div(order_.targets, kLanes),
                       taps = order_.taps;
    launch(context, "petaflow::conv::unpack_gradient[taps]"_label, squares * columns, [&](std::int64_t item) {
      const std::int64_t target = item / squares * kLanes, source = item % squares * kLanes, block = target / kBlock;
      const auto sources = static_cast<int>(std::min<std::int64_t>(kLanes, order_.sources - source));
      const std::int64_t targets = std::min<std::int64_t>(kLanes, order_.targets - target);
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const float* const from = sum + sum_begin(tap, block) + source * order_.width(block) + target % kBlock;
        Floats square[kLanes] = {};
        for (int i = 0; i < sources; ++i) lanes::load(from + i * order_.width(block), square[i]);
        lanes::transpose(square);
        for (std::int64_t k = 0; k < targets; ++k) {
          float* const to = dw + ((target + k) * order_.sources + source) * taps + tap;
          if (taps == 1) {
            lanes::store(to, sources, square[k]);
          } else {
            for (int c = 0; c < sources; ++c) to[c * taps] = square[k][c];
          }
        }
      }
    });
  }

  std::string detail() const override { return fmt::format("taps {}x{}", kSources, kBlock); }

 private:
  std::int64_t panels() const { return ceil_div(order_.sources, kSources); }

  /// Where the sums of a tap and a block of channels of y begin.
  std::int64_t sum_begin(std::int64_t tap, std::int64_t block) const {
    return order_.block_begin(0, block) + tap * order_.sources * order_.width(block);
  }

  /// The blocks of channels of y of the sum.
  void add_blocks(const ConvDesc& desc, const ConvArgs& args, const Interval& blocks, std::byte* scratch) const {
    const Axes axes(desc, false);
    for (std::int64_t number = 0; number < order_.taps; ++number) {
      const Tap tap(axes, number);
      in_pieces(tap.pixels(), kMostPixels<T>, [&](std::int64_t first, std::int64_t count) {
        add_chunk(find(tap, args, first, count), number, args.sum, blocks, scratch);
      });
    }
  }

  void add_chunk(const Pixels<T>& pixels, std::int64_t tap, float* sums, const Interval& blocks,
                 std::byte* scratch) const {
    auto* const x = reinterpret_cast<Number<T>*>(scratch + scratch_.x);
    auto* const dy = reinterpret_cast<Number<T>*>(scratch + scratch_.dy);
    in_pieces(panels(), kMostPanels, [&](std::int64_t panel, std::int64_t number) {
      copy_x(pixels, panel, number, x);
      for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
        copy_dy(pixels, block, dy);
        with_constant<lanes::kVectors>(order_.width(block) / kLanes, [&](auto vectors) {
          float* const sum = sums + sum_begin(tap, block);
          for (std::int64_t i = 0; i < number; ++i) {
            const std::int64_t source = (panel + i) * kSources;
            with_constant<kSources>(std::min<std::int64_t>(kSources, order_.sources - source), [&](auto sources) {
              add_product<sources, vectors>(x + i * pixels.rows * kSources, dy, pixels.rows,
                                            sum + source * vectors * kLanes);
            });
          }
        });
      }
    });
  }

  /// Those of a tap from `first` on, counted over the samples of a tile.
  Pixels<T> find(const Tap& tap, const ConvArgs& args, std::int64_t first, std::int64_t count) const {
    Pixels<T> pixels;
    pixels.rows = ceil_div(count, kHeld<T>);
    pixels.x.fill(zeros_.data());
    pixels.dy.fill(zeros_.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto [in_dy, in_x] = tap.find(first + i);
      const auto place = static_cast<std::size_t>(i);
      pixels.x[place] = static_cast<const T*>(args.x) + in_x;
      pixels.dy[place] = static_cast<const T*>(args.y) + in_dy;
    }
    return pixels;
  }

  /// Panels (rows, kSources), some rows of each at a time, which then lie in the L1d cache.
  void copy_x(const Pixels<T>& pixels, std::int64_t panel, std::int64_t number, Number<T>* to) const {
    constexpr std::int64_t kRows = 16;
    for (std::int64_t r = 0; r < pixels.rows; r += kRows) {
      const std::int64_t end = std::min(r + kRows, pixels.rows);
      for (std::int64_t i = 0; i < number; ++i) {
        const std::int64_t source = (panel + i) * kSources;
        with_constant<kSources>(std::min<std::int64_t>(kSources, order_.sources - source), [&](auto sources) {
          for (std::int64_t row = r; row < end; ++row) {
            Number<T>* const panel_row = to + (i * pixels.rows + row) * kSources;
            const auto [from, next] = elements(pixels.x, row);
            for (int c = 0; c < sources; c += kLanes) {  // std::copy_n calls memmove
              const int count = std::min<int>(kLanes, sources - c);
              lanes::store(panel_row + c, count, numbers(from + source + c, next + source + c, count));
            }
          }
        });
      }
    }
  }

  /// A panel (rows, width of the block); the next one is brought near meanwhile.
  void copy_dy(const Pixels<T>& pixels, std::int64_t block, Number<T>* to) const {
    const std::int64_t width = order_.width(block), first = block * kBlock;
    for (std::int64_t r = 0; r < pixels.rows; ++r) {
      const auto [from, next] = elements(pixels.dy, r);
      for (std::int64_t k = 0; k < width; k += kLanes) {
        const int count = static_cast<int>(std::min<std::int64_t>(kLanes, order_.targets - first - k));
        lanes::store(to + r * width + k, kLanes, numbers(from + first + k, next + first + k, count));
        __builtin_prefetch(from + first + kBlock + k);
        if constexpr (kHeld<T> > 1) __builtin_prefetch(next + first + kBlock + k);
      }
    }
  }

  /// The elements that make the numbers of a row of a panel.
  static std::pair<const T*, const T*> elements(const std::array<const T*, kMostPixels<T>>& pixels, std::int64_t row) {
    const auto first = static_cast<std::size_t>(row * kHeld<T>);
    return {pixels[first], pixels[first + kHeld<T> - 1]};
  }

  std::vector<ConvDesc> tiles_;
  PackedOrder order_;
  std::vector<T> zeros_;
  struct {
    std::size_t x = 0, dy = 0, bytes = 0;  // of a share
  } scratch_;
};

std::string why_not(Pass pass, std::span<const ConvDesc> tiles) {
  constexpr Extent kOne{1, 1, 1};
  const ConvDesc& first = tiles.front();
  const ConvGeometry& g = first.geometry;
  const bool bf16 = first.type == DType::kBf16;
  if (pass != Pass::kBackwardWeights) return "for gradients of weights only";
  if (bf16 && !lanes::kMultipliesPairs) return "no dot products of bf16 (AVX512_BF16) here";
  if ((g.kernel != kOne && g.dilation == kOne) || g.groups != 1)
    return "for windows of one pixel or dilated ones, without groups, only";
  const auto [fewest, most] = std::minmax(first.in_channels, first.out_channels);
  const std::int64_t least = bf16 ? kFewestInBf16 : kFewestChannels, larger = bf16 ? kFewestOnOneSide : least;
  if (fewest < least || most < larger)
    return fmt::format("for {} channels and more, {} and more on one side, only", least, larger);
  for (const ConvDesc& desc : tiles) {
    if (const std::int64_t summed = kMostSummed * (bf16 ? 2 : 1); desc.n * desc.out.volume() > summed)
      return fmt::format("for up to {} pixels, whose sums in f32 are exact enough", summed);
  }
  return {};
}

std::unique_ptr<ConvKernel> make(Pass, std::span<const ConvDesc> tiles) {
  if (tiles.front().type == DType::kBf16) return std::make_unique<TapsKernel<Bf16>>(tiles);
  return std::make_unique<TapsKernel<float>>(tiles);
}

}  // namespace
}  // namespace taps

extern const ConvImpl kConvTaps;
const ConvImpl kConvTaps = {"taps", taps::why_not, taps::make, ConvScope::kSome};

}  // namespace petaflow
