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

std::string why_not_layer(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  const Extent ones{1, 1, 1};
  const bool phases = has_phases(desc);
  if (g.kernel.h != g.kernel.w || g.kernel.h < 3 || g.kernel.h > (phases ? 10 : 5))
    return phases ? "with stride 2 for 3 x 3 to 10 x 10 taps only" : "for 3 x 3 to 5 x 5 taps only";
  if ((!phases && g.stride != ones) || (!is_dilated(desc) && g.dilation != ones) || g.groups != 1)
    return "without stride, dilation and groups only";
  // 3 x 3 taps in phases save two fifths of the products: 64 channels lose that again (gradient of weights 21.3 to 22.9
  // ms), 128 gain 5 to 15 % (Zen 4).
  if (constexpr std::int64_t kMany = 128;
      phases && g.kernel.h < 5 && !desc.transforms && std::min(desc.in_channels, desc.out_channels) < kMany)
    return fmt::format("with stride 2 and fewer than 5 x 5 taps for {} channels and more only", kMany);
  if (desc.in_channels % kLanes != 0 || desc.out_channels % kLanes != 0)
    return fmt::format("for multiples of {} channels only", kLanes);
  if (phases && std::min(desc.in.h, desc.in.w) < 2) return "without phases that have no pixel only";
  return {};
}

// Patches for each thread: transformed weights are two to four times as large, and are read, or summed, by each of them
// for each tile.  Half as many of 8 x 8 numbers, so that maps of 24 x 36 pixels, Tiramisu's smallest, take 5 x 5 taps
// so with two threads.  Not measured against other numbers.
std::int64_t fewest_patches(const Problem& p) { return p.edge == 8 ? 24 : 48; }

// Patches whose transforms, of source and target, take as much room as the transformed weights.
std::int64_t suited_patches(const Problem& p) { return p.sources * p.targets / (p.sources + p.targets); }

// Patches save a factor of four in multiplications (by 3 x 3 taps); from where on it is lost is not measured.
bool mostly_outside(const Problem& p) {
  return p.patches_h() * p.patches_w() * p.patch() * p.patch() > 2 * p.target_h * p.target_w;
}

// Gradients of x whose phases of an even number of taps would begin at different pixels.
bool phases_differ(Pass pass, const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  return pass == Pass::kBackwardData && has_phases(desc) && g.kernel.h % 2 == 0 &&
         (begins_with_zero(g.pad_begin.h) || begins_with_zero(g.pad_begin.w));
}

std::string why_not_neighbours(Pass pass, std::span<const ConvDesc> tiles) {
  const ConvDesc& first = tiles.front();
  if (std::string reason = why_not_layer(first); !reason.empty()) return reason;
  for (const ConvDesc& desc : tiles) {
    if (pass == Pass::kBackwardData && has_phases(desc)) {
      const Extent &pad = desc.geometry.pad_begin, &first_pad = first.geometry.pad_begin;
      if (begins_with_zero(pad.h) != begins_with_zero(first_pad.h)) return "tiles begin at even and at odd rows";
    }
    if (phases_differ(pass, desc)) return "with stride 2 an even number of taps for even padding only";
  }
  if (first.transforms) {
    const bool suits = *first.transforms == Transforms::kInTiles || *first.transforms == Transforms::kInLargePatches;
    return suits ? "" : "the layer has too few patches, or most of them lie outside";
  }
  const std::int64_t fewest = fewest_patches(Problem(first, pass == Pass::kBackwardData));
  std::int64_t rows = 0;  // of the largest tile
  for (const ConvDesc& desc : tiles) {
    const Problem p(desc, pass == Pass::kBackwardData);
    rows = std::max(rows, p.samples * p.d.targets * p.patches_h() * p.patches_w());
    if (mostly_outside(p)) return "most of its patches lie outside";
  }
  if (rows < fewest * first.threads)
    return fmt::format("{} patches of a tile are too few for {} thread(s), which take {} each", rows, first.threads,
                       fewest);
  return {};
}

// Layers of fewer patches than tiles want, whose weights are transformed a piece at a time: from so many patches, or
// from transformed weights that exceed the L1 caches (Emerald Rapids, two threads, tiles or whole by sums of products
// against this: 512 channels on 9 patches 1.82 to 1.71 ms forward, 128 on 49 0.64 to 0.41, 256 on 36 1.92 to 1.08,
// 1,024 to 1,280 44 to 20; where tiles suit, they are up to 1.4 times as fast).
constexpr std::int64_t kFewestStreamed = 16, kLeastStreamed = std::int64_t{1} << 20;

// Whether these are such a layer, whole, with a block of targets for each thread.  3 x 3 taps with stride 2 gain
// nothing (256 channels, 48 x 72 pixels, Zen 4, by sums of products against this: 4.4, 4.6, 5.6 to 4.2, 4.3, 4.3 ms, 24
// x 36 pixels 2.1, 2.2, 2.5 to 2.7, 2.8, 2.8, in bf16 2.2, 2.3, 2.5 to 2.3, 2.6, 2.5).
bool is_streamed(Pass pass, std::span<const ConvDesc> tiles) {
  const ConvDesc& first = tiles.front();
  const bool planar = first.in.d == 1 && first.geometry.kernel.d == 1 && first.geometry.pad_begin.d == 0;
  if (tiles.size() > 1 || !planar || taps_of(first) < 3) return false;
  if (!why_not_layer(first).empty() || phases_differ(pass, first)) return false;
  if (first.transforms) return *first.transforms == Transforms::kWhole;
  const Problem p(first, pass == Pass::kBackwardData, edge_of(taps_of(first)));
  const std::int64_t patches = p.samples * p.d.targets * p.patches_h() * p.patches_w(),
                     most = std::min(fewest_patches(p) * first.threads, suited_patches(p));
  return p.transformed_bytes() >= kLeastStreamed && p.targets >= lanes::kBlock * first.threads &&
         patches >= kFewestStreamed && patches < most && !mostly_outside(p);
}

std::string why_not(Pass pass, std::span<const ConvDesc> tiles) {
  for (const ConvDesc& tile : tiles) {
    if (!is_dilated(tile)) break;  // none is
    if (std::string reason = why_no_phases(tile); !reason.empty()) return reason;
  }
  return is_streamed(pass, tiles) ? "" : why_not_neighbours(pass, tiles);
}

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

TileWishes wishes(Pass pass, const ConvDesc& whole) {
  if (!why_not(pass, {&whole, 1}).empty()) return {};
  const Problem p(whole, pass == Pass::kBackwardData);
  if (is_streamed(pass, {&whole, 1})) return {1, 1, 1, Transforms::kWhole};
  const Transforms in_tiles = p.edge > edge_of(p.taps) ? Transforms::kInLargePatches : Transforms::kInTiles;
  std::int64_t fewest = fewest_patches(p);
  if (is_dilated(whole)) {
    const std::int64_t r = whole.geometry.dilation.h, across = r * r * p.patches_w(),
                       of_sample = across * p.patches_h(),
                       rows = pass == Pass::kBackwardData ? whole.in.h : whole.out.h;
    // Few patches: whole planes, over whose blocks the threads divide themselves (eight times the fewest: not measured
    // against other numbers).
    if (of_sample < 8 * fewest * whole.threads)
      return {r * p.patch(), rows, ceil_div(fewest * whole.threads, of_sample), in_tiles};
    return {r * p.patch(), ceil_div(fewest, across) * r * p.patch(), 1, in_tiles};
  }
  const std::int64_t of_plane = p.patches_h() * p.patches_w(), samples = ceil_div(fewest, p.d.targets * of_plane),
                     rows = p.patch() * (p.writes.size() > 1 ? 2 : 1);  // of a patch: those of x, or of y
  // Tiles transform the planes that they share with their neighbours again, kernel.d - 1 of them, so they hold twice as
  // many or more (not measured against other numbers), and should not cut patches.
  if (whole.out.d > 1) return {1, std::max(2 * whole.geometry.kernel.d, ceil_div(fewest, of_plane)), samples, in_tiles};
  if (pass == Pass::kBackwardWeights && p.transformed_bytes() > kBlockBytes) {
    // Where each thread has fewer, the whole tensor, so that there is one sum.
    const std::int64_t suited = suited_patches(p);
    if (p.samples * of_plane < suited * whole.threads) return {rows, whole.out.h, p.samples, in_tiles};
    fewest = std::max(fewest, suited);
  }
  // Where the transformed weights exceed the last cache they come from memory for every tile (3 x 3 taps with stride 2,
  // 256 channels on 192 x 576 pixels, 37 MB: forward 120 to 108 ms, as whole).
  if (constexpr std::int64_t kFar = std::int64_t{32} << 20; p.transformed_bytes() > kFar)
    fewest = std::max(fewest, suited_patches(p));
  return {rows, ceil_div(fewest, p.patches_w()) * rows, samples, in_tiles};
}

}  // namespace
}  // namespace winograd

extern const ConvImpl kConvWinograd;
const ConvImpl kConvWinograd = {"winograd", winograd::why_not, winograd::make, ConvScope::kTransform, winograd::wishes};

}  // namespace petaflow
