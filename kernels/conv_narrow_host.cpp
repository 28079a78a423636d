// Forward and backward weights of convolutions with few input channels, as first layers have: one sum over all taps and
// channels, with a pointer for each of them.  Host only.
//
// The pixels that a row of y reads are copied into lines, one for each tap in depth and height, with zeros where there
// is no pixel, so that all pixels are alike.  Products take f32 or pairs of bf16 (lanes::Number): forward pairs
// neighbours of a line, backward weights two pixels of y.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "base/scratch.hpp"
#include "kernels/conv.hpp"
#include "kernels/conv_packing.hpp"
#include "kernels/exact_sum.hpp"
#include "kernels/launch.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow {
namespace narrow {
namespace {

using lanes::Floats;
using lanes::kBlock;
using lanes::kHeld;
using lanes::kLanes;
using lanes::Number;
using lanes::unrolled;
using portable::PackedOrder;
using portable::PackWeights;

// Taps times channels, each of which has a pointer on the stack: 5 x 5 x 5 of one channel and 7 x 7 of three fit.
constexpr std::int64_t kMostSources = 160;
// Pixels whose gradients of weights are summed in f32, which is off by 1.8e-8 sqrt(512) = 4e-7 of their size; the sums
// of these are in double.
constexpr std::int64_t kInF32 = 512;

/// The lines of a convolution.
struct LineShape {
  std::int64_t count, taps, channels;  // lines; what a pixel reads of each
  std::int64_t step;                   // elements between the pixels of y
  std::int64_t elements;               // of a line

  /// @param pairs_pixels  numbers hold pixels of y, otherwise neighbours of a line, the last of which may be behind it
  LineShape(const ConvDesc& desc, int held, bool pairs_pixels)
      : count(desc.geometry.kernel.d * desc.geometry.kernel.h),
        taps(desc.geometry.kernel.w),
        channels(desc.in_channels),
        step(desc.geometry.stride.w * channels),
        elements(pairs_pixels ? (ceil_div(desc.out.w, held) * held - 1) * step + run()
                              : (desc.out.w - 1) * step + run() + held - 1) {}
  std::int64_t run() const { return taps * channels; }
};

/// A row of a tensor, which may lie outside.
struct RowAt {
  std::int64_t sample = 0, d = INT64_MIN, h = 0;
  bool operator==(const RowAt&) const = default;
};

/// Copies a row of x from pixel -pad on.
template <class T>
void copy_line(const ConvDesc& desc, const LineShape& shape, const T* x, const RowAt& row, T* to) {
  const ConvGeometry& g = desc.geometry;
  const bool inside = row.d >= 0 && row.d < desc.in.d && row.h >= 0 && row.h < desc.in.h;
  const std::int64_t before = inside ? std::min(g.pad_begin.w * shape.channels, shape.elements) : shape.elements,
                     count = std::min(desc.in.w * shape.channels, shape.elements - before);
  std::fill_n(to, before, T{});
  if (count > 0) {
    const Strides& strides = desc.x_strides;
    std::copy_n(x + row.sample * strides.n + row.d * strides.d + row.h * strides.h, count, to + before);
  }
  std::fill(to + before + std::max<std::int64_t>(0, count), to + shape.elements, T{});
}

/// Pairs of neighbouring pixels of a row of y; behind the last one is zero.
inline void pair_pixels(const ConvDesc& desc, const Bf16* y, lanes::Bf16Pair* to) {
  for (std::int64_t o = 0; o < desc.out.w; o += 2, y += 2 * desc.y_strides.w, to += desc.out_channels) {
    for (std::int64_t k = 0; k < desc.out_channels; k += kLanes) {
      Floats first, second = {};
      lanes::load(y + k, first);
      if (o + 1 < desc.out.w) lanes::load(y + desc.y_strides.w + k, second);
      lanes::store(to + k, kLanes, lanes::pair(first, second));
    }
  }
}

/// kPixels pixels from `first` of a row, kVectors registers of channels of y.
/// @param step  elements between pixels; a constant makes their addresses cheap
template <int kPixels, int kVectors, class T, class Step>
void convolve(const T* const* at, std::int64_t sources, std::int64_t first, Step step, const Number<T>* weights, T* y,
              std::int64_t y_step) {
  Floats sum[kPixels][kVectors] = {};
  for (std::int64_t s = 0; s < sources; ++s, weights += kVectors * kLanes) {
    const T* from = at[s] + first * step;
    lanes::Vector<Number<T>> weight[kVectors];
    unrolled<kVectors>([&](auto v) { lanes::load(weights + v * kLanes, weight[v]); });
    unrolled<kPixels>([&](auto p) {
      Number<T> value;
      std::memcpy(&value, from + p * step, sizeof value);
      unrolled<kVectors>([&](auto v) { lanes::multiply_add(sum[p][v], value, weight[v]); });
    });
  }
  unrolled<kPixels>([&](auto p) {
    unrolled<kVectors>([&](auto v) { lanes::store(y + (first + p) * y_step + v * kLanes, kLanes, sum[p][v]); });
  });
}

/// kRun neighbouring sources of each of kLines lines times kVectors registers of channels of dy, over the numbers of a
/// row.
template <int kLines, int kRun, int kVectors, class N>
void correlate(const N* const* lines, std::int64_t step, std::int64_t count, const N* dy, std::int64_t dy_step,
               float* gradient) {
  constexpr int kSources = kLines * kRun;
  Floats sum[kSources][kVectors];
  unrolled<kSources>([&](auto s) {
    unrolled<kVectors>([&](auto v) { lanes::load(gradient + (s * kVectors + v) * kLanes, sum[s][v]); });
  });
  const N* from[kLines];
  unrolled<kLines>([&](auto l) { from[l] = lines[l]; });
  for (std::int64_t i = 0; i < count * step; i += step, dy += dy_step) {
    lanes::Vector<N> value[kVectors];
    unrolled<kVectors>([&](auto v) { lanes::load(dy + v * kLanes, value[v]); });
    unrolled<kSources>([&](auto s) {
      unrolled<kVectors>([&](auto v) { lanes::multiply_add(sum[s][v], from[s / kRun][i + s % kRun], value[v]); });
    });
  }
  unrolled<kSources>([&](auto s) {
    unrolled<kVectors>([&](auto v) { lanes::store(gradient + (s * kVectors + v) * kLanes, kLanes, sum[s][v]); });
  });
}

/// Sources whose sums of kVectors registers stay in registers, beside those of dy and one to spare.
template <int kVectors>
inline constexpr int kRoom = (lanes::kRegisters - kVectors - 1) / kVectors;

/// Sources of a line that are correlated together: all of a run, or one where the registers do not hold so many.
template <int kRun>
inline constexpr std::integral_constant<int, kRun <= kRoom<lanes::kVectors> ? kRun : 1> kRunOf;

/// Weights (out, in, taps) for forward: [block of targets][line][number of a run][target in block].
template <class T>
struct PackRuns {
  PackedOrder order;
  std::int64_t lines, run;
  const float* from;
  Number<T>* to;

  std::int64_t numbers() const { return ceil_div(run, kHeld<T>); }
  std::int64_t elements() const { return lines * numbers() * order.targets; }

  void operator()(std::int64_t i) const {
    const std::int64_t target = i % order.targets, number = i / order.targets % numbers(),
                       line = i / order.targets / numbers(), block = target / kBlock;
    const auto weight = [&](std::int64_t e) {
      if (e >= run) return 0.0F;
      const std::int64_t tap = line * run / order.sources + e / order.sources;
      return from[(target * order.sources + e % order.sources) * order.taps + tap];
    };
    to[block * kBlock * lines * numbers() + (line * numbers() + number) * order.width(block) + target % kBlock] =
        lanes::number<T>(weight(number * kHeld<T>), weight(number * kHeld<T> + 1));
  }
};

template <class T>
class NarrowKernel final : public ConvKernel {
 public:
  NarrowKernel(Pass pass, std::span<const ConvDesc> tiles) : pass_(pass), tiles_(tiles.begin(), tiles.end()) {
    const ConvDesc& desc = tiles_.front();
    const bool forward = pass == Pass::kForward;
    order_ = {1, desc.in_channels, desc.out_channels, desc.geometry.kernel.volume()};
    std::int64_t longest_line = 0, longest_row = 0;
    for (const ConvDesc& tile : tiles_) {
      const LineShape& shape = shapes_.emplace_back(tile, kHeld<T>, !forward);
      longest_line = std::max(longest_line, shape.elements);
      longest_row = std::max(longest_row, tile.out.w);
    }
    lay_out(longest_line, longest_row);
  }

  std::size_t packed_bytes() const override {
    return pass_ == Pass::kForward ? static_cast<std::size_t>(runs({}, {}).elements()) * sizeof(Number<T>) : 0;
  }

  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    const PackRuns<T> work = runs(weights, packed);
    launch(context, "petaflow::conv::pack[narrow]"_label, work.elements(), work);
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const ConvDesc& desc = tiles_[tile];
    const std::int64_t rows = desc.n * desc.out.d * desc.out.h, parts = desc.threads;
    const auto own = [&](std::int64_t part) { return args.scratch + static_cast<std::size_t>(part) * scratch_.bytes; };
    launch(context, desc.threads, "petaflow::conv::parts[narrow]"_label, parts, [&](std::int64_t part) {
      const std::int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
      if (pass_ == Pass::kForward) {
        run_rows(tile, {args.x, args.y, nullptr, own(part), args.weights}, begin, end);
      } else {
        sum_rows(tile, {args.x, args.y, sums(own(part)), own(part)}, begin, end);
      }
    });
    if (pass_ == Pass::kForward) return;
    launch(context, desc.threads, "petaflow::conv::add_parts[narrow]"_label, order_.elements(), [&](std::int64_t i) {
      double total = 0;
      for (std::int64_t part = 0; part < parts; ++part) total += exact_sums(own(part))[i];
      args.sum[i] += static_cast<float>(total);
    });
  }

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(tiles_.front().threads) * scratch_.bytes;
  }
  std::int64_t gradient_elements() const override { return pass_ == Pass::kBackwardWeights ? order_.elements() : 0; }

  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    launch(context, "petaflow::conv::unpack_gradient[narrow]"_label, order_.elements(),
           PackWeights<true>{order_, false, sum, dw});
  }

  std::string detail() const override { return "narrow"; }

 private:
  PackRuns<T> runs(const float* weights, std::byte* packed) const {
    const LineShape& shape = shapes_.front();
    return {order_, shape.count, shape.run(), weights, reinterpret_cast<Number<T>*>(packed)};
  }

  void run_rows(std::size_t tile, const ConvArgs& args, std::int64_t begin, std::int64_t end) const {
    const ConvDesc& desc = tiles_[tile];
    const Strides& strides = desc.y_strides;
    RowAt held[kMostSources] = {};
    for (std::int64_t row = begin; row < end; ++row) {
      const RowAt at{row / desc.out.h / desc.out.d, row / desc.out.h % desc.out.d, row % desc.out.h};
      T* y = static_cast<T*>(args.y) + at.sample * strides.n + at.d * strides.d + at.h * strides.h;
      pass_ == Pass::kForward ? forward(tile, args, at, held, y) : backward(tile, args, at, held, y);
    }
  }

  /// The gradient of many rows: some pixels are summed in f32, and these sums in double.
  void sum_rows(std::size_t tile, const ConvArgs& args, std::int64_t begin, std::int64_t end) const {
    const std::int64_t rows = std::max<std::int64_t>(1, kInF32 / tiles_[tile].out.w);
    double* exact = exact_sums(args.scratch);
    std::fill_n(exact, order_.elements(), 0.0);
    std::fill_n(args.sum, order_.elements(), 0.0F);
    for (std::int64_t row = begin; row < end; row += rows) {
      run_rows(tile, args, row, std::min(end, row + rows));
      move_sum(args.sum, exact, static_cast<std::size_t>(order_.elements()));
    }
  }

  /// Where the parts of a thread's scratch begin, in bytes.
  struct Scratch {
    std::size_t lines = 0;
    std::size_t elements = 0;  // bf16, backward weights: one line before its pixels are paired
    std::size_t pairs = 0;     // and a row of dy in pairs
    std::size_t sum = 0;       // backward weights, f32: the gradient of some pixels
    std::size_t exact = 0;     // in double: of all of them
    std::size_t bytes = 0;     // of all

    std::size_t line_bytes = 0;  // from one line to the next
  };

  void lay_out(std::int64_t longest_line, std::int64_t longest_row) {
    const bool forward = pass_ == Pass::kForward, pairs = !forward && kHeld<T> > 1;
    scratch_.line_bytes = padded(static_cast<std::size_t>(longest_line) * (forward ? sizeof(T) : sizeof(Number<T>)));
    ScratchLayout layout;
    scratch_.lines = layout.add<std::byte>(shapes_.front().count * static_cast<std::int64_t>(scratch_.line_bytes));
    scratch_.elements = layout.add<T>(pairs ? longest_line : 0);
    scratch_.pairs = layout.add<Number<T>>(pairs ? ceil_div(longest_row, 2) * order_.targets : 0);
    scratch_.sum = layout.add<float>(forward ? 0 : order_.elements());
    scratch_.exact = layout.add<double>(forward ? 0 : order_.elements());
    scratch_.bytes = layout.bytes();
  }

  float* sums(std::byte* part) const { return reinterpret_cast<float*>(part + scratch_.sum); }
  double* exact_sums(std::byte* part) const { return reinterpret_cast<double*>(part + scratch_.exact); }

  /// f(line) for the lines of the row `at` of y, in their order.  A row of x that the row of y before has read is held
  /// in its place.
  template <class Stored, class F>
  void for_lines(std::size_t tile, const ConvArgs& args, const RowAt& at, RowAt* held, const F& f) const {
    const ConvDesc& desc = tiles_[tile];
    const ConvGeometry& g = desc.geometry;
    const LineShape& shape = shapes_[tile];
    const T* x = static_cast<const T*>(args.x);
    const std::int64_t first_h = at.h * g.stride.h - g.pad_begin.h,
                       first_place = (first_h % g.kernel.h + g.kernel.h) % g.kernel.h;
    for (std::int64_t td = 0; td < g.kernel.d; ++td) {
      RowAt row = {at.sample, at.d * g.stride.d + td * g.dilation.d - g.pad_begin.d, first_h};
      for (std::int64_t th = 0, turn = first_place; th < g.kernel.h; ++th, ++row.h) {
        const std::int64_t place = td * g.kernel.h + turn;
        auto* to = reinterpret_cast<Stored*>(args.scratch + scratch_.lines +
                                             static_cast<std::size_t>(place) * scratch_.line_bytes);
        if (held[place] != row) {
          held[place] = row;
          if constexpr (std::is_same_v<Stored, T>) {
            copy_line(desc, shape, x, row, to);
          } else {
            auto* elements = reinterpret_cast<T*>(args.scratch + scratch_.elements);
            copy_line(desc, shape, x, row, elements);
            lanes::pair_elements(elements, elements + shape.step, shape.elements - shape.step, to);
          }
        }
        f(to);
        if (++turn == g.kernel.h) turn = 0;
      }
    }
  }

  void forward(std::size_t tile, const ConvArgs& args, const RowAt& row, RowAt* held, T* y) const {
    const ConvDesc& desc = tiles_[tile];
    const LineShape& shape = shapes_[tile];
    const T* at[kMostSources];
    std::int64_t sources = 0;
    for_lines<T>(tile, args, row, held, [&](const T* line) {
      for (std::int64_t e = 0; e < shape.run(); e += kHeld<T>) at[sources++] = line + e;
    });
    const auto* const weights = reinterpret_cast<const Number<T>*>(args.weights);
    const auto pixels = [&](std::int64_t block, auto vectors, auto most, auto step) {
      in_pieces(desc.out.w, most, [&](std::int64_t first, std::int64_t size) {
        with_constant<most>(size, [&](auto count) {
          convolve<count, vectors>(at, sources, first, step, weights + block * kBlock * sources, y + block * kBlock,
                                   desc.y_strides.w);
        });
      });
    };
    for_blocks([&](std::int64_t block, auto vectors) {
      // All accumulators for neighbouring pixels of one channel; other steps take too many addresses for more of them.
      constexpr std::integral_constant<int, lanes::kPoints * lanes::kVectors / vectors> kMost;
      if (shape.step == 1) {
        pixels(block, vectors, kMost, std::integral_constant<std::int64_t, 1>{});
      } else {
        pixels(block, vectors, std::integral_constant<int, lanes::kPoints>{}, shape.step);
      }
    });
  }

  void backward(std::size_t tile, const ConvArgs& args, const RowAt& row_at, RowAt* held, const T* dy) const {
    const ConvDesc& desc = tiles_[tile];
    const LineShape& shape = shapes_[tile];
    const Number<T>* row;
    std::int64_t row_step = desc.y_strides.w;
    if constexpr (kHeld<T> == 1) {
      row = dy;
    } else {
      auto* pairs = reinterpret_cast<Number<T>*>(args.scratch + scratch_.pairs);
      pair_pixels(desc, dy, pairs);
      row = pairs;
      row_step = order_.targets;
    }
    const auto sum_up = [&](auto run) {
      const Number<T>* lines[kMostSources];
      std::int64_t count = 0;
      for_lines<Number<T>>(tile, args, row_at, held, [&](const Number<T>* line) {
        for (std::int64_t e = 0; e < shape.run(); e += run) lines[count++] = line + e;
      });
      for_blocks([&](std::int64_t block, auto vectors) {
        // Ten lines at most, each with two vectors: with more, fetching the pointers costs more than it saves (no
        // figure was kept).
        constexpr int kMost = std::min(kRoom<vectors> / run, vectors > 1 ? 10 : kRoom<1>);
        in_pieces(count, kMost, [&](std::int64_t first, std::int64_t size) {
          with_constant<kMost>(size, [&](auto lines_of_piece) {
            correlate<lines_of_piece, run, vectors>(
                lines + first, shape.step * kHeld<T>, ceil_div(desc.out.w, kHeld<T>), row + block * kBlock, row_step,
                args.sum + order_.block_begin(0, block) + first * run * vectors * kLanes);
          });
        });
      });
    };
    // Three taps of 1, 3 or 4 channels are usual.
    switch (shape.run()) {
      case 3:
        return sum_up(kRunOf<3>);
      case 9:
        return sum_up(kRunOf<9>);
      case 12:
        return sum_up(kRunOf<12>);
      default:
        return sum_up(std::integral_constant<int, 1>{});
    }
  }

  /// f(block, its registers) for the blocks of channels of y.
  template <class F>
  void for_blocks(const F& f) const {
    for (std::int64_t block = 0; block < order_.blocks(); ++block) {
      with_constant<lanes::kVectors>(order_.width(block) / kLanes, [&](auto vectors) { f(block, vectors); });
    }
  }

  Pass pass_;
  std::vector<ConvDesc> tiles_;
  std::vector<LineShape> shapes_;
  PackedOrder order_;
  Scratch scratch_;  // of a thread
};

std::string why_not(Pass pass, std::span<const ConvDesc> tiles) {
  const ConvDesc& desc = tiles.front();
  if (pass == Pass::kBackwardData) return "not for backward data";
  if (desc.in_channels >= kLanes || desc.in_channels * desc.geometry.kernel.volume() > kMostSources)
    return "for few input channels and taps only";
  if (desc.geometry.dilation.h != 1 || desc.geometry.dilation.w != 1 || desc.x_strides.w != desc.in_channels)
    return "for neighbouring pixels of a dense tensor only";
  if (desc.geometry.groups != 1 || desc.out_channels % kLanes != 0)
    return fmt::format("without groups and for multiples of {} output channels only", kLanes);
  return {};
}

std::unique_ptr<ConvKernel> make(Pass pass, std::span<const ConvDesc> tiles) {
  if (tiles.front().type == DType::kF32) return std::make_unique<NarrowKernel<float>>(pass, tiles);
  return std::make_unique<NarrowKernel<Bf16>>(pass, tiles);
}

}  // namespace
}  // namespace narrow

extern const ConvImpl kConvNarrow;
const ConvImpl kConvNarrow = {"narrow", narrow::why_not, narrow::make, ConvScope::kSome};

}  // namespace petaflow
