// Convolutions with 3 x 3 to 5 x 5 taps and stride 1 in the plane, of any depth, by Winograd's transforms: a quarter of
// the multiplications of a direct one (of 5 x 5 taps 0.16); those with stride 2 as four of them, dilated ones as one of
// their phases.  Host only; f32, and bf16 with transforms in f32 whose results are rounded to bf16 for the products
// of 2 x 2 to 4 x 4 taps: the result's relative error is about 0.01 there.  Each position of a patch is a matrix
// product over the blocks of winograd_blocks.hpp.
#include <algorithm>

#include "base/error.hpp"
#include "base/scratch.hpp"
#include "kernels/conv.hpp"
#include "kernels/exact_sum.hpp"
#include "kernels/launch.hpp"
#include "kernels/register_blocks.hpp"
#include "kernels/winograd_blocks.hpp"
#include "kernels/winograd_choice.hpp"
#include "kernels/winograd_phases.hpp"
#include "kernels/winograd_products.hpp"
#include "kernels/winograd_streamed.hpp"
#include "kernels/winograd_weights.hpp"

namespace petaflow {
namespace winograd {
namespace {

// Numbers of sources that are multiplied at once, with all rows and targets, so that what they read stays in the L2
// cache (256 to 512 channels, 5 x 5 taps, stride 2, Zen 5, tiles: all at once 98 ms forward, 256 89, 512 81).
constexpr std::int64_t kSourcesAtOnce = 512;

template <int kTaps, int kEdge, class T>
class WinogradKernel final : public ConvKernel {
  static constexpr int kPositions = kEdge * kEdge, kPatch = kEdge + 1 - kTaps;
  // Eight points enlarge what rounding to bf16 does to 5 %, and 5 x 5 taps save more products than pairs do.
  using Product = std::conditional_t<kEdge == 8, float, T>;

 public:
  WinogradKernel(Pass pass, std::span<const ConvDesc> tiles)
      : pass_(pass),
        threads_(tiles.front().threads),
        weights_{{},
                 pass == Pass::kBackwardData,
                 tiles.front().geometry.kernel.h,
                 tiles.front().in_channels,
                 has_phases(tiles.front()) ? kPhases : 1,
                 pass == Pass::kBackwardData && begins_with_zero(tiles.front().geometry.pad_begin.h),
                 pass == Pass::kBackwardData && begins_with_zero(tiles.front().geometry.pad_begin.w)},
        shares_blocks_(pass == Pass::kBackwardWeights && threads_ > 1 && tiles.front().geometry.kernel.d == 1) {
    const Packing packing = winograd::packing<Product>(pass == Pass::kBackwardWeights);
    std::int64_t block_numbers = 0;
    for (const ConvDesc& desc : tiles) {
      problems_.emplace_back(desc, weights_.reversed);
      blocks_.emplace_back(problems_.back(), packing, parts());
      block_numbers = std::max(block_numbers, blocks_.back().numbers());
    }
    const Problem& p = problems_.front();
    weights_.order = {p.sources / packing.channels, p.targets, p.d.taps};
    weights_.held = packing.channels;
    ScratchLayout layout;
    scratch_.v = layout.add<Number<Product>>(block_numbers);
    if (pass == Pass::kBackwardWeights) {
      std::int64_t most = 0;  // blocks of a part
      for (const Blocks& blocks : blocks_) most = std::max(most, ceil_div(blocks.count(), parts()));
      sums_apart_ = !shares_blocks_ && (threads_ > 1 || most > kFewBlocks);
      exact_ = most > std::max<std::int64_t>(kFewBlocks, blocks_in_f32());
      scratch_.sum = layout.add<float>(sums_apart_ ? elements() : 0);
      scratch_.exact = layout.add<double>(exact_ ? elements() : 0);
    }
    scratch_.bytes = layout.bytes();
  }

  std::size_t packed_bytes() const override {
    return pass_ == Pass::kBackwardWeights ? 0 : static_cast<std::size_t>(elements()) * sizeof(Number<Product>);
  }

  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    launch(context, "petaflow::conv::pack[winograd]"_label, weights_.items(),
           PackWeights<kTaps, kEdge, Product>{weights_, weights, reinterpret_cast<Number<Product>*>(packed)});
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    if (shares_blocks_) return correlate_together(context, tile, args);
    // A part of the blocks for each thread; the parts' gradients are added in their order.
    const std::int64_t count = blocks_[tile].count();
    const auto own = [&](std::int64_t part) { return args.scratch + static_cast<std::size_t>(part) * scratch_.bytes; };
    launch(context, threads_, "petaflow::conv::parts[winograd]"_label, threads_, [&](std::int64_t part) {
      float* sum = sums_apart_ ? reinterpret_cast<float*>(own(part) + scratch_.sum) : args.sum;
      double* exact = exact_ ? reinterpret_cast<double*>(own(part) + scratch_.exact) : nullptr;
      if (sums_apart_) std::fill_n(sum, elements(), 0.0F);
      if (exact_) std::fill_n(exact, elements(), 0.0);
      run_blocks(tile, count * part / threads_, count * (part + 1) / threads_, args,
                 reinterpret_cast<Number<Product>*>(own(part) + scratch_.v), sum, exact);
    });
    if (!sums_apart_) return;
    launch(context, threads_, "petaflow::conv::add_parts[winograd]"_label, kPositions, [&](std::int64_t position) {
      const std::int64_t size = weights_.order.position();
      for (std::int64_t part = 0; part < threads_; ++part) {
        const auto* from = reinterpret_cast<const float*>(own(part) + scratch_.sum);
        for (std::int64_t i = position * size; i < (position + 1) * size; ++i) args.sum[i] += from[i];
      }
    });
  }

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(parts()) * scratch_.bytes; }
  std::int64_t gradient_elements() const override { return pass_ == Pass::kBackwardWeights ? elements() : 0; }

  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    launch(context, "petaflow::conv::unpack_gradient[winograd]"_label, weights_.items(),
           UnpackGradient<kTaps, kEdge>{weights_, sum, dw});
  }

  std::string detail() const override {
    return fmt::format("winograd F({0}x{0}, {1}x{1}){2}", kPatch, kTaps, problems_.front().phases_text());
  }

 private:
  // So few blocks of a part add their gradients to those of other tiles one by one: a sum apart costs a pass over all
  // elements().  Tiles and whole tensors agree to 1e-6 so (tests/test_networks.cpp).
  static constexpr std::int64_t kFewBlocks = 5;
  /// Where the parts of a thread's scratch begin, in bytes.
  struct Scratch {
    std::size_t v = 0;      // V of a block, then the patches of its target (Blocks::m_begin())
    std::size_t sum = 0;    // backward weights, f32: the gradient of the part's blocks
    std::size_t exact = 0;  // in double, where there are many blocks
    std::size_t bytes = 0;  // of all
  };

  /// Into which the blocks of a tile are divided.
  std::int64_t parts() const { return shares_blocks_ ? 1 : threads_; }
  std::int64_t elements() const { return kPositions * weights_.order.position(); }

  std::int64_t blocks_in_f32() const {
    return static_cast<std::int64_t>(sums_in_f32(static_cast<std::size_t>(elements())));
  }

  /// @param exact  room for sums in double, which become `sum`; nullptr: all are in f32
  void run_blocks(std::size_t tile, std::int64_t begin, std::int64_t end, const ConvArgs& args, Number<Product>* v,
                  float* sum, double* exact) const {
    constexpr int kPatches = packing<Product>(true).patches;
    const Problem& p = problems_[tile];
    const Blocks& blocks = blocks_[tile];
    Number<Product>* m = v + blocks.m_begin();
    auto* source = static_cast<T*>(weights_.reversed ? args.y : args.x);
    auto* target = static_cast<T*>(weights_.reversed ? args.x : args.y);
    for (std::int64_t i = begin; i < end; ++i) {
      const Block block = blocks[i];
      if (pass_ == Pass::kBackwardWeights) {
        transform<kPatches>(p, blocks, block, source, v);
        transform_gradients<kEdge, kPatch, kPatches, Product>(p, blocks, block, target, m);
        for (int position = 0; position < kPositions; ++position)
          correlate_position(p, blocks, block, position, v, m, sum);
        if (exact != nullptr && ((i + 1 - begin) % blocks_in_f32() == 0 || i + 1 == end))
          move_sum(sum, exact, static_cast<std::size_t>(elements()));
      } else {
        auto* sums = reinterpret_cast<float*>(m);
        transform<1>(p, blocks, block, source, v);
        multiply_positions(p, blocks, block, v, reinterpret_cast<const Number<Product>*>(args.weights), sums);
        if (p.writes.size() > 1) {
          write_targets<kEdge, kPatch, kPhases>(p, blocks, block, sums, target);
        } else {
          write_targets<kEdge, kPatch, 1>(p, blocks, block, sums, target);
        }
      }
    }
    if (exact != nullptr) round_sum(exact, sum, static_cast<std::size_t>(elements()));
  }

  template <int kPatches>
  void transform(const Problem& p, const Blocks& blocks, const Block& block, T* source, Number<Product>* v) const {
    if (p.reads.size() > 1) {
      transform_sources<kEdge, kPatches, Product, kPhases>(p, blocks, block, source, v);
    } else {
      transform_sources<kEdge, kPatches, Product, 1>(p, blocks, block, source, v);
    }
  }

  /// Backward weights: all threads share every block, transform a part of it each and then add positions of their own,
  /// so that there is one sum, however large.
  void correlate_together(const Context& context, std::size_t tile, const ConvArgs& args) const {
    constexpr int kPatches = packing<Product>(true).patches;
    const Problem& p = problems_[tile];
    const Blocks& blocks = blocks_[tile];
    auto* const v = reinterpret_cast<Number<Product>*>(args.scratch + scratch_.v);
    Number<Product>* const m = v + blocks.m_begin();
    double* const exact = exact_ ? reinterpret_cast<double*>(args.scratch + scratch_.exact) : nullptr;
    const auto for_positions = [&](const auto& act) {
      launch(context, threads_, "petaflow::conv::positions[winograd]"_label, kPositions, act);
    };
    const auto size = static_cast<std::size_t>(weights_.order.position());
    if (exact != nullptr) {
      for_positions(
          [&](std::int64_t position) { std::fill_n(exact + static_cast<std::size_t>(position) * size, size, 0.0); });
    }
    for (std::int64_t i = 0; i < blocks.count(); ++i) {
      const Block block = blocks[i];
      launch(context, threads_, "petaflow::conv::transforms[winograd]"_label, block.planes * block.rows,
             [&](std::int64_t row) {
               // A block of one row, where it lies in this one.
               Block one = block;
               one.plane += row / block.rows;
               one.patch += row % block.rows * kPatches;
               one.planes = one.rows = 1;
               one.patches = std::min<std::int64_t>(kPatches, block.patches - row % block.rows * kPatches);
               transform<kPatches>(p, blocks, one, static_cast<T*>(args.x), v + row * blocks.v_stride);
               transform_gradients<kEdge, kPatch, kPatches, Product>(p, blocks, one, static_cast<T*>(args.y),
                                                                     m + row * blocks.m_stride);
             });
      const bool moves = exact != nullptr && ((i + 1) % blocks_in_f32() == 0 || i + 1 == blocks.count());
      for_positions([&](std::int64_t position) {
        correlate_position(p, blocks, block, position, v, m, args.sum);
        const std::size_t begin = static_cast<std::size_t>(position) * size;
        if (moves) move_sum(args.sum + begin, exact + begin, size);
        if (moves && i + 1 == blocks.count()) round_sum(exact + begin, args.sum + begin, size);
      });
    }
  }

  void multiply_positions(const Problem& p, const Blocks& blocks, const Block& block, const Number<Product>* v,
                          const Number<Product>* weights, float* m) const {
    const WeightOrder& order = weights_.order;
    for (int position = 0; position < kPositions; ++position) {
      const auto [targets, sources] = channels_at(p, position);
      const Number<Product>* u = weights + position * order.position();
      const std::int64_t at_once = order.taps > 1 ? order.sources : kSourcesAtOnce;
      in_pieces(sources.end - sources.begin, at_once, [&](std::int64_t first, std::int64_t size) {
        const std::int64_t c = sources.begin + first;
        for (std::int64_t k = targets.begin / kBlock * kBlock; k < targets.end; k += kBlock) {
          with_constant<lanes::kVectors>(order.width(k) / kLanes, [&](auto vectors) {
            in_pieces(block.planes * block.patches, lanes::kPoints, [&](std::int64_t begin, std::int64_t rows) {
              with_constant<lanes::kPoints>(rows, [&](auto count) {
                const auto run = [&](auto adds) {
                  multiply<count, vectors, adds.value, Product>(
                      v + position * blocks.v_position + begin * blocks.v_stride + c, blocks.v_stride,
                      block.patches * blocks.v_stride, order.taps, size, u + order.at(0, c, k), vectors * kLanes,
                      m + position * blocks.m_position + begin * blocks.m_stride + k, blocks.m_stride);
                };
                if (first > 0) {
                  run(std::true_type{});
                } else {
                  run(std::false_type{});
                }
              });
            });
          });
        }
      });
    }
  }

  void correlate_position(const Problem& p, const Blocks& blocks, const Block& block, std::int64_t position,
                          const Number<Product>* v, const Number<Product>* d, float* sum) const {
    const WeightOrder& order = weights_.order;
    const auto [targets, sources] = channels_at(p, position);
    for (std::int64_t tap = 0; tap < order.taps; ++tap) {
      in_pieces(block.planes * block.rows, kRowsAtOnce, [&](std::int64_t row, std::int64_t rows) {
        for (std::int64_t k = 0; k < targets.end; k += kBlock) {
          with_constant<lanes::kVectors>(order.width(k) / kLanes, [&](auto vectors) {
            in_pieces(sources.end - sources.begin, kBlockRows<vectors>, [&](std::int64_t first, std::int64_t size) {
              with_constant<kBlockRows<vectors>>(size, [&](auto count) {
                const std::int64_t c = sources.begin + first;
                correlate<count, vectors, Product>(
                    v + position * blocks.v_position + (tap * block.rows + row) * blocks.v_stride + c, blocks.v_stride,
                    d + position * blocks.m_position + row * blocks.m_stride + k, blocks.m_stride, rows,
                    sum + position * order.position() + order.at(tap, c, k));
              });
            });
          });
        }
      });
    }
  }

  /// Numbers of targets and of sources whose product at a position is not zero.
  struct Channels {
    PhaseRange targets, sources;
  };
  Channels channels_at(const Problem& p, std::int64_t position) const {
    const WeightOrder& order = weights_.order;
    Channels channels{{0, order.targets}, {0, order.sources}};
    PhaseRange& of_x = weights_.reversed ? channels.targets : channels.sources;
    const PhaseRange phases = p.phases_at(position);
    of_x = {of_x.end * phases.begin / weights_.phases, of_x.end * phases.end / weights_.phases};
    return channels;
  }

  Pass pass_;
  int threads_;
  Weights<kTaps> weights_;
  std::vector<Problem> problems_;
  std::vector<Blocks> blocks_;
  Scratch scratch_;                          // of a thread
  bool shares_blocks_;                       // all threads work on each block
  bool sums_apart_ = false, exact_ = false;  // gradients of a part's blocks; many: in double
};

template <class T>
std::unique_ptr<ConvKernel> make_typed(Pass pass, std::span<const ConvDesc> tiles) {
  switch (taps_of(tiles.front())) {
    case 2:
      return std::make_unique<WinogradKernel<2, 6, T>>(pass, tiles);
    case 3:
      return std::make_unique<WinogradKernel<3, 6, T>>(pass, tiles);
    case 4:
      return std::make_unique<WinogradKernel<4, 6, T>>(pass, tiles);
    default:
      return std::make_unique<WinogradKernel<5, 8, T>>(pass, tiles);
  }
}

std::unique_ptr<ConvKernel> make(Pass pass, std::span<const ConvDesc> tiles) {
  if (is_streamed(pass, tiles)) return make_streamed(pass, tiles.front());
  if (taps_of(tiles.front()) == 3 && edge_for(tiles.front()) == kLargeEdge)
    return std::make_unique<WinogradKernel<3, kLargeEdge, float>>(pass, tiles);
  return tiles.front().type == DType::kF32 ? make_typed<float>(pass, tiles) : make_typed<Bf16>(pass, tiles);
}

}  // namespace
}  // namespace winograd

extern const ConvImpl kConvWinograd;
const ConvImpl kConvWinograd = {"winograd", winograd::why_not, winograd::make, ConvScope::kTransform, winograd::wishes};

}  // namespace petaflow
