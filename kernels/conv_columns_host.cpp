// Forward and backward data of planar convolutions that write few channels, as the classes of a segmentation: every
// pixel of the source is multiplied with all taps at once, and the products are added where the taps say.
//
//   p(s, (t, k)) = sum_c source(s, c) w(t, k, c),   target(o, k) = sum_t p(s(o, t), (t, k))
//
// Three channels of 3 x 3 taps are 27 columns of 32, where sums for each target fill 3 lanes of 16: 256 to 3 channels
// on 192 x 288 pixels by a deconvolution with stride 2, a batch of 2, two threads of a Zen 4: 40 to 14 ms.  Host only.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/scratch.hpp"
#include "kernels/conv.hpp"
#include "kernels/conv_axis.hpp"
#include "kernels/conv_packing.hpp"
#include "kernels/launch.hpp"
#include "kernels/register_blocks.hpp"
#include "kernels/winograd_products.hpp"

namespace petaflow {
namespace columns {
namespace {

using lanes::kBlock;
using lanes::kHeld;
using lanes::kLanes;
using lanes::Number;
using portable::Axes;
using portable::Axis;
using portable::PackedOrder;

constexpr std::int64_t kMostTargets = 4, kMostColumns = 2 * kBlock;

bool is_backward(Pass pass) { return pass == Pass::kBackwardData; }
std::int64_t sources_of(Pass pass, const ConvDesc& desc) {
  return is_backward(pass) ? desc.out_channels : desc.in_channels;
}
std::int64_t targets_of(Pass pass, const ConvDesc& desc) {
  return is_backward(pass) ? desc.in_channels : desc.out_channels;
}

/// Weights (out, in, taps) to [block of columns (tap, target)][number of sources][column in block].
template <class T>
struct PackColumns {
  PackedOrder order;  // sources in numbers, columns as targets
  std::int64_t sources, targets, taps;
  bool backward;  // sources are the output channels, and the taps run backwards
  const float* from;
  Number<T>* to;

  void operator()(std::int64_t i) const {
    const std::int64_t column = i % order.targets, number = i / order.targets, block = column / kBlock,
                       tap = column / targets, target = column % targets;
    const auto weight = [&](std::int64_t source) {
      if (source >= sources) return 0.0F;
      return backward ? from[(source * targets + target) * taps + taps - 1 - tap]
                      : from[(target * sources + source) * taps + tap];
    };
    to[order.block_begin(0, block) + number * order.width(block) + column % kBlock] =
        lanes::number<T>(weight(number * kHeld<T>), weight(number * kHeld<T> + 1));
  }
};

template <class T>
class ColumnsKernel final : public ConvKernel {
 public:
  ColumnsKernel(Pass pass, std::span<const ConvDesc> tiles)
      : backward_(is_backward(pass)),
        tiles_(tiles.begin(), tiles.end()),
        sources_(sources_of(pass, tiles.front())),
        targets_(targets_of(pass, tiles.front())),
        taps_(tiles.front().geometry.kernel.volume()),
        order_{1, ceil_div(sources_, kHeld<T>), taps_ * targets_, 1} {
    std::int64_t longest_source = 0, longest_target = 0;
    for (const ConvDesc& tile : tiles_) {
      const Axes axes(tile, backward_);
      longest_source = std::max(longest_source, axes.w.sources);
      longest_target = std::max(longest_target, axes.w.targets);
    }
    ScratchLayout layout;
    row_elements_ = longest_source * order_.padded();
    scratch_.products = layout.add<float>(tiles_.front().geometry.kernel.h * row_elements_);
    scratch_.line = layout.add<float>(longest_target * targets_);
    scratch_.bytes = layout.bytes();
  }

  std::size_t packed_bytes() const override { return static_cast<std::size_t>(order_.elements()) * sizeof(Number<T>); }

  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    auto* const to = reinterpret_cast<Number<T>*>(packed);
    if (order_.padded() != order_.targets) zero(context, reinterpret_cast<float*>(packed), order_.elements());
    launch(context, "petaflow::conv::pack[columns]"_label, order_.sources * order_.targets,
           PackColumns<T>{order_, sources_, targets_, taps_, backward_, weights, to});
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const ConvDesc& desc = tiles_[tile];
    const Axes axes(desc, backward_);
    launch(context, desc.threads,
           backward_ ? "petaflow::conv::backward_data[columns]"_label : "petaflow::conv::forward[columns]"_label,
           desc.threads, [&](std::int64_t part) {
             const std::int64_t rows = axes.rows();
             write_rows(axes, args, rows * part / desc.threads, rows * (part + 1) / desc.threads,
                        args.scratch + static_cast<std::size_t>(part) * scratch_.bytes);
           });
  }

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(tiles_.front().threads) * scratch_.bytes;
  }

  std::string detail() const override { return fmt::format("columns of {} taps x {}", taps_, targets_); }

 private:
  /// Rows of the target, counted over the samples.
  void write_rows(const Axes& axes, const ConvArgs& args, std::int64_t begin, std::int64_t end,
                  std::byte* scratch) const {
    auto* const products = reinterpret_cast<float*>(scratch + scratch_.products);
    auto* const line = reinterpret_cast<float*>(scratch + scratch_.line);
    const T* const source = static_cast<const T*>(backward_ ? args.y : args.x);
    T* const target = static_cast<T*>(backward_ ? args.x : args.y);
    // A row of the source that earlier rows of the target have read is held in its place.
    std::vector<std::int64_t> held(static_cast<std::size_t>(axes.h.taps), -1);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t sample = row / axes.h.targets, h = row % axes.h.targets;
      std::fill_n(line, axes.w.targets * targets_, 0.0F);
      for (std::int64_t tap = 0; tap < axes.h.taps; ++tap) {
        const std::int64_t from = axes.h.source(h, tap);
        if (from < 0) continue;
        const std::int64_t number = sample * axes.h.sources + from, place = from % axes.h.taps;
        float* const of_row = products + place * row_elements_;
        if (held[static_cast<std::size_t>(place)] != number) {
          held[static_cast<std::size_t>(place)] = number;
          multiply_row(axes, source + sample * axes.source_n + from * axes.h.source_stride, args.weights, of_row);
        }
        add_taps(axes, tap, of_row, line);
      }
      T* const to = target + sample * axes.target_n + h * axes.h.target_stride;
      for (std::int64_t w = 0; w < axes.w.targets; ++w) {
        for (std::int64_t k = 0; k < targets_; ++k)
          to[w * axes.w.target_stride + k] = static_cast<T>(line[w * targets_ + k]);
      }
    }
  }

  /// products (pixel, column) of a row of the source.
  void multiply_row(const Axes& axes, const T* row, const std::byte* weights, float* products) const {
    const auto* const v = reinterpret_cast<const Number<T>*>(row);
    const auto* const u = reinterpret_cast<const Number<T>*>(weights);
    const std::int64_t step = axes.w.source_stride / kHeld<T>, width = order_.padded();
    for (std::int64_t block = 0; block < order_.blocks(); ++block) {
      with_constant<lanes::kVectors>(order_.width(block) / kLanes, [&](auto vectors) {
        in_pieces(axes.w.sources, lanes::kPoints, [&](std::int64_t first, std::int64_t size) {
          with_constant<lanes::kPoints>(size, [&](auto count) {
            winograd::multiply<count, vectors, false, T>(v + first * step, step, 0, 1, order_.sources,
                                                         u + order_.block_begin(0, block), vectors * kLanes,
                                                         products + first * width + block * kBlock, width);
          });
        });
      });
    }
  }

  /// line (pixel, channel) += the products of the taps of row `tap_h`.
  void add_taps(const Axes& axes, std::int64_t tap_h, const float* products, float* line) const {
    const Axis& axis = axes.w;
    with_constant<kMostTargets>(targets_, [&](auto targets) {
      for (std::int64_t tap = 0; tap < axis.taps; ++tap) {
        const float* const column = products + (tap_h * axis.taps + tap) * targets;
        // The first target that reads inside; the next one `divisor` further on reads `scale` sources further on.
        std::int64_t w = 0;
        while (w < axis.targets && axis.source(w, tap) < 0) ++w;
        if (w == axis.targets) continue;
        for (std::int64_t from = axis.source(w, tap); w < axis.targets && from < axis.sources;
             w += axis.divisor, from += axis.scale) {
          for (int k = 0; k < targets; ++k) line[w * targets + k] += column[from * order_.padded() + k];
        }
      }
    });
  }

  bool backward_;
  std::vector<ConvDesc> tiles_;
  std::int64_t sources_, targets_, taps_;
  PackedOrder order_;  // of the weights: sources in numbers, columns as targets
  std::int64_t row_elements_ = 0;
  struct {
    std::size_t products = 0;  // of as many rows of the source as there are taps
    std::size_t line = 0;      // a row of the target
    std::size_t bytes = 0;
  } scratch_;  // of a part
};

std::string why_not(Pass pass, std::span<const ConvDesc> tiles) {
  const ConvDesc& desc = tiles.front();
  if (pass == Pass::kBackwardWeights) return "not for gradients of weights";
  if (desc.geometry.groups != 1 || desc.in.d != 1 || desc.out.d != 1 || desc.geometry.kernel.d != 1)
    return "for planes without groups only";
  if (desc.geometry.kernel.volume() == 1) return "for several taps only";
  const std::int64_t sources = sources_of(pass, desc), targets = targets_of(pass, desc);
  if (targets > kMostTargets || sources < kBlock || targets * desc.geometry.kernel.volume() > kMostColumns)
    return fmt::format("from {} channels and more to {} and fewer, with few taps, only", kBlock, kMostTargets);
  const std::int64_t step = (is_backward(pass) ? desc.y_strides : desc.x_strides).w,
                     first = is_backward(pass) ? desc.y_channel : desc.x_channel;
  if (desc.type == DType::kBf16 && (sources % 2 != 0 || step % 2 != 0 || first % 2 != 0))
    return "for pairs of channels only";
  return {};
}

std::unique_ptr<ConvKernel> make(Pass pass, std::span<const ConvDesc> tiles) {
  if (tiles.front().type == DType::kF32) return std::make_unique<ColumnsKernel<float>>(pass, tiles);
  return std::make_unique<ColumnsKernel<Bf16>>(pass, tiles);
}

}  // namespace
}  // namespace columns

extern const ConvImpl kConvColumns;
const ConvImpl kConvColumns = {"columns", columns::why_not, columns::make, ConvScope::kSome};

}  // namespace petaflow
