// Gradients of weights of convolutions whose window is one pixel, in f32: the product of x, as (channels of x, pixels),
// and dy, as (pixels, channels of y).  Host only.
//
// A chunk of pixels at a time both operands are copied into panels, in which the channels of a block lie next to each
// other for pixel after pixel.  A panel of dy stays in the L1d cache while those of x, narrower ones, pass by; two
// panels make one block of the gradient in registers, which is then added to the sum in memory.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/scratch.hpp"
#include "kernels/conv.hpp"
#include "kernels/conv_packing.hpp"
#include "kernels/epilogue.hpp"
#include "kernels/lane_transpose.hpp"
#include "kernels/launch.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow {
namespace points {
namespace {

using lanes::Floats;
using lanes::kBlock;
using lanes::kLanes;
using lanes::unrolled;
using portable::PackedOrder;

/// Pixels of a chunk: a panel of dy takes 28 KiB.
constexpr std::int64_t kMostPixels = 224;
/// Channels of x in a panel, and panels that are made at a time: they stay in an L2 cache of 1 MiB.
constexpr int kSources = lanes::kPoints;
constexpr std::int64_t kMostPanels = 64;
/// Chunks that are added up in f32.
constexpr std::int64_t kMostChunks = 64;
/// Channels of x and of y from which on the copies pay: 64 and 128 run at 57 % of the peak, oneDNN's at 80.
constexpr std::int64_t kFewestChannels = 128;

/// sum (kCount, kVectors registers) += x^T dy.
/// @param x   (pixels, kSources)
/// @param dy  (pixels, kVectors registers)
template <int kCount, int kVectors>
void add_product(const float* x, const float* dy, std::int64_t pixels, float* sum) {
  // It comes from the last cache while the products are summed.
  for (int line = 0; line < kCount * kVectors; ++line) __builtin_prefetch(sum + line * kLanes, 1);
  Floats block[kCount][kVectors] = {};
  for (std::int64_t p = 0; p < pixels; ++p, x += kSources, dy += kVectors * kLanes) {
    Floats gradient[kVectors];
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

/// Where the pixels of a chunk lie in x and dy.
struct Pixels {
  std::int64_t count = 0;
  std::array<const float*, kMostPixels> x, dy;
};

class PointsKernel final : public ConvKernel {
 public:
  explicit PointsKernel(std::span<const ConvDesc> tiles)
      : tiles_(tiles.begin(), tiles.end()), order_{1, tiles_.front().in_channels, tiles_.front().out_channels, 1} {
    ScratchLayout layout;
    scratch_.x = layout.add<float>(std::min(panels(), kMostPanels) * kMostPixels * kSources);
    scratch_.dy = layout.add<float>(kMostPixels * kBlock);
    scratch_.bytes = layout.bytes();
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const ConvDesc& desc = tiles_[tile];
    const std::int64_t shares = std::min<std::int64_t>(desc.threads, order_.blocks());
    launch(context, desc.threads, "petaflow::conv::backward_weights[points]"_label, shares, [&](std::int64_t share) {
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
    const std::int64_t squares = ceil_div(order_.sources, kLanes), columns = ceil_div(order_.targets, kLanes);
    launch(context, "petaflow::conv::unpack_gradient[points]"_label, squares * columns, [&](std::int64_t item) {
      const std::int64_t target = item / squares * kLanes, source = item % squares * kLanes, block = target / kBlock;
      const auto sources = static_cast<int>(std::min<std::int64_t>(kLanes, order_.sources - source));
      const std::int64_t targets = std::min<std::int64_t>(kLanes, order_.targets - target);
      const float* const from =
          sum + order_.block_begin(0, block) + source * order_.width(block) + target - block * kBlock;
      Floats square[kLanes] = {};
      for (int i = 0; i < sources; ++i) lanes::load(from + i * order_.width(block), square[i]);
      lanes::transpose(square);
      for (std::int64_t k = 0; k < targets; ++k) {
        float* const to = dw + (target + k) * order_.sources + source;
        Floats before;
        lanes::load_part(to, sources, before);
        lanes::store(to, sources, before + square[k]);
      }
    });
  }

  std::string detail() const override { return fmt::format("points {}x{}", kSources, kBlock); }

 private:
  std::int64_t panels() const { return ceil_div(order_.sources, kSources); }

  /// The blocks of channels of y of the sum.
  void add_blocks(const ConvDesc& desc, const ConvArgs& args, const Interval& blocks, std::byte* scratch) const {
    auto* const x = reinterpret_cast<float*>(scratch + scratch_.x);
    auto* const dy = reinterpret_cast<float*>(scratch + scratch_.dy);
    in_pieces(desc.n * desc.out.volume(), kMostPixels, [&](std::int64_t first, std::int64_t count) {
      const Pixels pixels = find(desc, args, first, count);
      in_pieces(panels(), kMostPanels, [&](std::int64_t panel, std::int64_t number) {
        copy_x(pixels, panel, number, x);
        for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
          copy_dy(pixels, block, dy);
          with_constant<lanes::kVectors>(order_.width(block) / kLanes, [&](auto vectors) {
            float* const sum = args.sum + order_.block_begin(0, block);
            for (std::int64_t i = 0; i < number; ++i) {
              const std::int64_t source = (panel + i) * kSources;
              with_constant<kSources>(std::min<std::int64_t>(kSources, order_.sources - source), [&](auto sources) {
                add_product<sources, vectors>(x + i * count * kSources, dy, count, sum + source * vectors * kLanes);
              });
            }
          });
        }
      });
    });
  }

  /// Those from `first` on, counted over the samples of a tile.
  static Pixels find(const ConvDesc& desc, const ConvArgs& args, std::int64_t first, std::int64_t count) {
    const Extent& stride = desc.geometry.stride;
    Pixels pixels;
    pixels.count = count;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t w = (first + i) % desc.out.w, row = (first + i) / desc.out.w, h = row % desc.out.h,
                         plane = row / desc.out.h, d = plane % desc.out.d, n = plane / desc.out.d;
      const auto at = [&](const Strides& s, std::int64_t sd, std::int64_t sh, std::int64_t sw) {
        return n * s.n + d * sd * s.d + h * sh * s.h + w * sw * s.w;
      };
      const auto place = static_cast<std::size_t>(i);
      pixels.x[place] = static_cast<const float*>(args.x) + at(desc.x_strides, stride.d, stride.h, stride.w);
      pixels.dy[place] = static_cast<const float*>(args.y) + at(desc.y_strides, 1, 1, 1);
    }
    return pixels;
  }

  /// Panels (pixels, kSources), some rows of each at a time, which then lie in the L1d cache.
  void copy_x(const Pixels& pixels, std::int64_t panel, std::int64_t number, float* to) const {
    constexpr std::int64_t kRows = 16;
    for (std::int64_t p = 0; p < pixels.count; p += kRows) {
      const std::int64_t end = std::min(p + kRows, pixels.count);
      for (std::int64_t i = 0; i < number; ++i) {
        const std::int64_t source = (panel + i) * kSources;
        with_constant<kSources>(std::min<std::int64_t>(kSources, order_.sources - source), [&](auto sources) {
          for (std::int64_t row = p; row < end; ++row) {
            float* const panel_row = to + (i * pixels.count + row) * kSources;
            const float* const from = pixels.x[static_cast<std::size_t>(row)] + source;
            for (int c = 0; c < sources; c += kLanes) {  // std::copy_n calls memmove
              const int count = std::min<int>(kLanes, sources - c);
              Floats values;
              lanes::load_part(from + c, count, values);
              lanes::store(panel_row + c, count, values);
            }
          }
        });
      }
    }
  }

  /// A panel (pixels, width of the block); the next one is brought near meanwhile.
  void copy_dy(const Pixels& pixels, std::int64_t block, float* to) const {
    const std::int64_t width = order_.width(block), first = block * kBlock;
    for (std::int64_t p = 0; p < pixels.count; ++p) {
      const float* const from = pixels.dy[static_cast<std::size_t>(p)] + first;
      for (std::int64_t k = 0; k < width; k += kLanes) {
        Floats values;
        if (const std::int64_t left = order_.targets - first - k; left >= kLanes) {
          lanes::load(from + k, values);
        } else {
          lanes::load_part(from + k, static_cast<int>(left), values);
        }
        lanes::store(to + p * width + k, kLanes, values);
        __builtin_prefetch(from + kBlock + k);
      }
    }
  }

  std::vector<ConvDesc> tiles_;
  PackedOrder order_;
  struct {
    std::size_t x = 0, dy = 0, bytes = 0;  // of a share
  } scratch_;
};

std::string why_not(Pass pass, std::span<const ConvDesc> tiles) {
  constexpr Extent kOne{1, 1, 1}, kNone{0, 0, 0};
  const ConvDesc& first = tiles.front();
  const ConvGeometry& g = first.geometry;
  if (pass != Pass::kBackwardWeights) return "for gradients of weights only";
  if (first.type != DType::kF32) return "for f32 only";
  if (g.kernel != kOne || g.groups != 1) return "for windows of one pixel, without groups, only";
  if (std::min(first.in_channels, first.out_channels) < kFewestChannels)
    return fmt::format("for {} channels and more only", kFewestChannels);
  for (const ConvDesc& desc : tiles) {
    if (desc.geometry.pad_begin != kNone || desc.geometry.pad_end != kNone) return "without padding only";
    if (desc.n * desc.out.volume() > kMostChunks * kMostPixels)
      return fmt::format("for up to {} pixels, whose sums in f32 are exact enough", kMostChunks * kMostPixels);
  }
  return {};
}

std::unique_ptr<ConvKernel> make(Pass, std::span<const ConvDesc> tiles) {
  return std::make_unique<PointsKernel>(tiles);
}

}  // namespace
}  // namespace points

extern const ConvImpl kConvPoints;
const ConvImpl kConvPoints = {"points", points::why_not, points::make, ConvScope::kSome};

}  // namespace petaflow
