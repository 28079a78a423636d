// Winograd's convolutions whose weights exceed the caches and meet few patches (winograd_streamed.hpp).  All patches of
// the source are transformed first.  Then each thread reads weights of some targets and sources, transforms them in its
// L2 cache and multiplies them with all patches there; a gradient of weights goes the other way.  So weights cross the
// memory bus once for each pass.
#include <algorithm>
#include <type_traits>

#include "base/scratch.hpp"
#include "kernels/lane_transpose.hpp"
#include "kernels/launch.hpp"
#include "kernels/winograd_blocks.hpp"
#include "kernels/winograd_products.hpp"
#include "kernels/winograd_streamed.hpp"
#include "kernels/winograd_weights.hpp"

namespace petaflow::winograd {
namespace {

// What an item of work has in the L2 cache: weights of so many pairs of a source and a target, transformed (36
// positions: 288 KiB), and so many bytes of sums, beside as many transformed sources.  Not measured against others.
constexpr std::int64_t kPieceWeights = std::int64_t{64} * lanes::kBlock, kSumBytes = std::int64_t{512} << 10;

/// kLanes rows of memory as columns of lanes: to[column][lane] = from[lane * stride + column].
void to_lanes(const float* from, std::int64_t stride, std::int64_t columns, float* to) {
  for (std::int64_t begin = 0; begin < columns; begin += kLanes) {
    const auto count = static_cast<int>(std::min<std::int64_t>(kLanes, columns - begin));
    Floats square[kLanes];
    unrolled<kLanes>([&](auto lane) {
      const float* row = from + lane * stride + begin;
      count == kLanes ? lanes::load(row, square[lane]) : lanes::load_part(row, count, square[lane]);
    });
    lanes::transpose(square);
    for (int i = 0; i < count; ++i) lanes::store(to + (begin + i) * kLanes, kLanes, square[i]);
  }
}

/// The way back.
void from_lanes(const float* from, std::int64_t stride, std::int64_t columns, float* to) {
  for (std::int64_t begin = 0; begin < columns; begin += kLanes) {
    const auto count = static_cast<int>(std::min<std::int64_t>(kLanes, columns - begin));
    Floats square[kLanes] = {};
    for (int i = 0; i < count; ++i) lanes::load(from + (begin + i) * kLanes, square[i]);
    lanes::transpose(square);
    unrolled<kLanes>([&](auto lane) { lanes::store(to + lane * stride + begin, count, square[lane]); });
  }
}

template <int kTaps, class T>
class StreamedKernel final : public ConvKernel {
  static constexpr int kEdge = edge_of(kTaps), kPositions = kEdge * kEdge, kPatch = kEdge + 1 - kTaps;
  using Product = std::conditional_t<kTaps == 5, float, T>;  // as WinogradKernel
  using Element = Number<Product>;

 public:
  StreamedKernel(Pass pass, const ConvDesc& desc)
      : pass_(pass),
        threads_(desc.threads),
        phases_(has_phases(desc) ? kPhases : 1),
        in_channels_(desc.in_channels),
        out_channels_(desc.out_channels),
        area_(desc.geometry.kernel.h * desc.geometry.kernel.w),
        p_(desc, reversed(), kEdge),
        block_channels_(reversed() && phases_ > 1 ? kLanes : lanes::kBlock),
        piece_channels_(kPieceWeights / (block_channels_ * phases_)),
        of_piece_(of_channels(piece_channels_, block_channels_)),
        of_last_(of_channels(channels_of(pieces() - 1, piece_channels_, source_channels()),
                             channels_of(target_blocks() - 1, block_channels_, target_channels()))),
        blocks_(of_piece_, winograd::packing<Product>(of_weights()), 1, rows_of_block()) {
    // Weights of one channel of x and of y tell where their taps stand.
    const auto begins = [&](std::int64_t pad) { return reversed() && begins_with_zero(pad); };
    const Weights<kTaps> one{{1, 1, 1},
                             reversed(),
                             desc.geometry.kernel.h,
                             1,
                             phases_,
                             begins(desc.geometry.pad_begin.h),
                             begins(desc.geometry.pad_begin.w)};
    for (int phase = 0; phase < phases_; ++phase) {
      for (int row = 0; row < kTaps; ++row) {
        for (int column = 0; column < kTaps; ++column) {
          const auto tap = one.outside({reversed() ? phase : 0, 0, reversed() ? 0 : phase}, 0, row, column);
          tap_[phase][row][column] = tap ? static_cast<int>(*tap) : -1;
        }
      }
    }
    u_position_ = off_page(kPieceWeights);
    ScratchLayout all, own;
    scratch_.v = all.add<Element>(pieces() * blocks_.count() * v_block());
    scratch_.d = all.add<Element>(of_weights() ? target_blocks() * blocks_.count() * d_block() : 0);
    scratch_.own = all.bytes();
    scratch_.u = own.add<float>(kPositions * u_position_);
    items_at_once_ =
        std::max<std::int64_t>(1, kSumBytes / (kPositions * blocks_.planes * blocks_.patches * of_piece_.targets * 4));
    scratch_.m = own.add<float>(of_weights() ? 0 : items_at_once_ * d_block());
    scratch_.taps = own.add<float>(piece_channels_ * block_channels_ * area_);
    scratch_.own_bytes = own.bytes();
  }

  std::size_t scratch_bytes() const override {
    return scratch_.own + static_cast<std::size_t>(threads_) * scratch_.own_bytes;
  }

  void run(const Context& context, std::size_t /*tile*/, const ConvArgs& args) override {
    constexpr int kPatches = packing<Product>(true).patches;
    auto* const v = reinterpret_cast<Element*>(args.scratch + scratch_.v);
    auto* const d = reinterpret_cast<Element*>(args.scratch + scratch_.d);
    auto* const source = static_cast<T*>(reversed() ? args.y : args.x);
    auto* const target = static_cast<T*>(reversed() ? args.x : args.y);
    launch(context, threads_, "petaflow::conv::transforms[winograd]"_label, pieces() * blocks_.count(),
           [&](std::int64_t i) {
             const std::int64_t piece = i / blocks_.count();
             const Problem& part = part_of(piece, pieces());
             const Block block = blocks_[i % blocks_.count()];
             T* const from = source + piece * piece_channels_;
             of_weights() ? transform<kPatches>(part, block, from, v + i * v_block())
                          : transform<1>(part, block, from, v + i * v_block());
           });
    if (of_weights()) {
      launch(context, threads_, "petaflow::conv::transforms[winograd]"_label, target_blocks() * blocks_.count(),
             [&](std::int64_t i) {
               const std::int64_t item = i / blocks_.count();
               transform_gradients<kEdge, kPatch, kPatches, Product>(
                   part_of(item, target_blocks()), blocks_, blocks_[i % blocks_.count()],
                   target + item * block_channels_, d + i * d_block());
             });
    }
    const std::int64_t items = target_blocks() * (of_weights() ? pieces() : blocks_.count());
    launch(context, threads_, "petaflow::conv::products[winograd]"_label, threads_, [&](std::int64_t part) {
      std::byte* const own = args.scratch + scratch_.own + static_cast<std::size_t>(part) * scratch_.own_bytes;
      const Own mine{reinterpret_cast<Element*>(own + scratch_.u), reinterpret_cast<float*>(own + scratch_.u),
                     reinterpret_cast<float*>(own + scratch_.m), reinterpret_cast<float*>(own + scratch_.taps)};
      const std::int64_t end = items * (part + 1) / threads_;
      std::int64_t size = 0;
      for (std::int64_t i = items * part / threads_; i < end; i += size) {
        // Items that follow each other share a piece of gradients' sources, or a block of patches.
        const std::int64_t first = i % target_blocks(), other = i / target_blocks();
        size = of_weights() ? 1 : std::min({items_at_once_, target_blocks() - first, end - i});
        if (of_weights()) {
          correlate_block(first, other, v, d, mine, args.sum);
        } else {
          multiply_blocks(first, size, other, v, reinterpret_cast<const float*>(args.weights), mine, target);
        }
      }
    });
  }

  std::string detail() const override {
    return fmt::format("winograd F({0}x{0}, {1}x{1}){2}, weights streamed", kPatch, kTaps, p_.phases_text());
  }

 private:
  /// Where the parts of the scratch begin, in bytes.
  struct Scratch {
    std::size_t v = 0, d = 0;  // the source (piece, block) and the gradient of y (block of targets, block), transformed
    std::size_t own = 0;       // that of each thread:
    std::size_t u = 0, m = 0;  // a piece of weights, or of their gradient, and sums of products
    std::size_t taps = 0;      // the piece in lanes of targets (vector, source, tap)
    std::size_t own_bytes = 0;
  };
  struct Own {
    Element* u;
    float *s, *m, *taps;  // s: the gradient of weights, in the place of u
  };

  bool reversed() const { return pass_ == Pass::kBackwardData; }
  bool of_weights() const { return pass_ == Pass::kBackwardWeights; }
  std::int64_t target_channels() const { return reversed() ? in_channels_ : out_channels_; }
  std::int64_t source_channels() const { return reversed() ? out_channels_ : in_channels_; }
  std::int64_t target_blocks() const { return ceil_div(target_channels(), block_channels_); }
  std::int64_t pieces() const { return ceil_div(source_channels(), piece_channels_); }
  static std::int64_t channels_of(std::int64_t i, std::int64_t size, std::int64_t all) {
    return std::min(size, all - i * size);
  }
  std::int64_t v_block() const { return blocks_.m_begin(); }
  std::int64_t d_block() const { return blocks_.numbers() - blocks_.m_begin(); }

  /// The problem of some channels of source and target.
  Problem of_channels(std::int64_t sources, std::int64_t targets) const {
    Problem part = p_;
    part.sources = sources * std::ssize(p_.reads);
    part.targets = targets * std::ssize(p_.writes);
    return part;
  }
  /// That of one of `count` pieces, or of blocks of targets; a run asks for no memory, so these are made before.
  const Problem& part_of(std::int64_t i, std::int64_t count) const { return i + 1 < count ? of_piece_ : of_last_; }
  /// Rows (plane, patch) of a block: so many that the sums of an item fill kSumBytes; of gradients of weights all.
  std::int64_t rows_of_block() const {
    if (of_weights()) return p_.samples * p_.d.targets * p_.patches_h() * p_.patches_w();
    return std::max<std::int64_t>(lanes::kPoints, kSumBytes / (kPositions * of_piece_.targets * 4));
  }

  template <int kPatches>
  void transform(const Problem& part, const Block& block, T* source, Element* v) const {
    if (part.reads.size() > 1) {
      transform_sources<kEdge, kPatches, Product, kPhases>(part, blocks_, block, source, v);
    } else {
      transform_sources<kEdge, kPatches, Product, 1>(part, blocks_, block, source, v);
    }
  }

  /// Blocks [first, first + count) of the targets from the patches of block b.
  void multiply_blocks(std::int64_t first, std::int64_t count, std::int64_t b, const Element* v, const float* weights,
                       const Own& own, T* target) const {
    for (std::int64_t piece = 0; piece < pieces(); ++piece) {
      for (std::int64_t i = 0; i < count; ++i) {
        multiply_piece(first + i, piece, b, v, weights, own, own.m + i * d_block());
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t item = first + i;
      const Problem& part = part_of(item, target_blocks());
      T* const to = target + item * block_channels_;
      if (part.writes.size() > 1) {
        write_targets<kEdge, kPatch, kPhases>(part, blocks_, blocks_[b], own.m + i * d_block(), to);
      } else {
        write_targets<kEdge, kPatch, 1>(part, blocks_, blocks_[b], own.m + i * d_block(), to);
      }
    }
  }

  /// Sums m of block `item` of the targets = the products of the first piece of sources, or += those of another one.
  void multiply_piece(std::int64_t item, std::int64_t piece, std::int64_t b, const Element* v, const float* weights,
                      const Own& own, float* sums) const {
    const std::int64_t groups = channels_of(item, block_channels_, target_channels()) / kLanes,
                       vectors = groups * std::ssize(p_.writes), rows = blocks_[b].planes * blocks_[b].patches,
                       channels = channels_of(piece, piece_channels_, source_channels()),
                       size = channels / lanes::kHeld<Product>;
    read_weights(item * block_channels_, groups, piece * piece_channels_, channels, weights, own.taps);
    transform_piece(groups, size, own.taps, own.u);
    for (int position = 0; position < kPositions; ++position) {
      const PhaseRange phases = p_.phases_at(position);
      const bool of_targets = p_.writes.size() > 1;
      const PhaseRange of_source = of_targets ? PhaseRange{0, 1} : phases,
                       of_target = of_targets ? phases : PhaseRange{0, vectors};
      const Element* const from =
          v + (piece * blocks_.count() + b) * v_block() + position * blocks_.v_position + of_source.begin * size;
      const Element* const u = own.u + position * u_position_ + of_source.begin * size * vectors * kLanes;
      float* const m = sums + position * blocks_.m_position;
      in_pieces(of_target.end - of_target.begin, lanes::kVectors, [&](std::int64_t begin, std::int64_t some) {
        const std::int64_t lane = (of_target.begin + begin) * kLanes;
        with_constant<lanes::kVectors>(some, [&](auto width) {
          in_pieces(rows, lanes::kPoints, [&](std::int64_t row, std::int64_t count) {
            with_constant<lanes::kPoints>(count, [&](auto points) {
              const auto run = [&](auto adds) {
                multiply<points, width, adds.value, Product>(
                    from + row * blocks_.v_stride, blocks_.v_stride, 0, 1, (of_source.end - of_source.begin) * size,
                    u + lane, vectors * kLanes, m + row * blocks_.m_stride + lane, blocks_.m_stride);
              };
              piece > 0 ? run(std::true_type{}) : run(std::false_type{});
            });
          });
        });
      });
    }
  }

  /// Taps (vector, source, tap) of `groups` x kLanes targets from `first` and of sources [begin, begin + count).
  void read_weights(std::int64_t first, std::int64_t groups, std::int64_t begin, std::int64_t count,
                    const float* weights, float* taps) const {
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t target = first + group * kLanes;
      if (pass_ != Pass::kBackwardData) {
        to_lanes(weights + (target * in_channels_ + begin) * area_, in_channels_ * area_, count * area_, taps);
        taps += count * area_ * kLanes;
        continue;
      }
      for (std::int64_t source = begin; source < begin + count; ++source, taps += area_ * kLanes)
        to_lanes(weights + (source * in_channels_ + target) * area_, area_, area_, taps);
    }
  }

  /// U (position, phase of the source, number of sources, phase of the target, vector) of a piece.
  void transform_piece(std::int64_t groups, std::int64_t numbers, const float* taps, Element* u) const {
    constexpr int kHeld = lanes::kHeld<Product>;
    const std::int64_t target_phases = pass_ == Pass::kBackwardData ? phases_ : 1;
    for (int phase = 0; phase < phases_; ++phase) {
      const auto& tap = tap_[phase];
      for (std::int64_t number = 0; number < numbers; ++number) {
        for (std::int64_t group = 0; group < groups; ++group) {
          const float* const from = taps + (group * numbers + number) * kHeld * area_ * kLanes;
          const std::int64_t place =
              target_phases > 1 ? number * phases_ + phase : (phase * numbers + number) * groups + group;
          Element* const to = u + place * kLanes;
          both_ways<kTaps, kEdge, kHeld>(
              [&](int n, int row, auto& in) {
                unrolled<kTaps>([&](auto column) {
                  in[column] = Floats{};
                  if (tap[row][column] >= 0) lanes::load(from + (n * area_ + tap[row][column]) * kLanes, in[column]);
                });
              },
              transform_weights<kTaps, kEdge>,
              [&](int column, const auto& out) {
                unrolled<kEdge>([&](auto row) { store_number(to + (row * kEdge + column) * u_position_, out, row); });
              });
        }
      }
    }
  }

  /// The gradient of the weights of block `item` of the targets and a piece of sources.
  void correlate_block(std::int64_t item, std::int64_t piece, const Element* v, const Element* d, const Own& own,
                       float* gradient) const {
    const std::int64_t first = item * block_channels_, begin = piece * piece_channels_,
                       groups = channels_of(item, block_channels_, out_channels_) / kLanes,
                       count = channels_of(piece, piece_channels_, in_channels_);
    std::fill_n(own.s, kPositions * u_position_, 0.0F);
    for (std::int64_t b = 0; b < blocks_.count(); ++b) {
      const Block block = blocks_[b];
      for (int position = 0; position < kPositions; ++position) {
        const PhaseRange phases = p_.phases_at(position);
        const Element* const sources = v + (piece * blocks_.count() + b) * v_block() + position * blocks_.v_position;
        const Element* const gradients = d + (item * blocks_.count() + b) * d_block() + position * blocks_.m_position;
        with_constant<lanes::kVectors>(groups, [&](auto width) {
          in_pieces((phases.end - phases.begin) * count, kBlockRows<width>, [&](std::int64_t c, std::int64_t size) {
            c += phases.begin * count;
            with_constant<kBlockRows<width>>(size, [&](auto some) {
              correlate<some, width, Product>(sources + c, blocks_.v_stride, gradients, blocks_.m_stride,
                                              block.planes * block.rows,
                                              own.s + position * u_position_ + c * groups * kLanes);
            });
          });
        });
      }
    }
    for (int phase = 0; phase < phases_; ++phase) {
      const auto& tap = tap_[phase];
      for (std::int64_t c = 0; c < count; ++c) {
        for (std::int64_t group = 0; group < groups; ++group) {
          const float* const from = own.s + ((phase * count + c) * groups + group) * kLanes;
          float* const to = own.taps + (group * count + c) * area_ * kLanes;
          both_ways<kEdge, kTaps, 1>(
              [&](int, int row, auto& in) {
                unrolled<kEdge>(
                    [&](auto column) { lanes::load(from + (row * kEdge + column) * u_position_, in[column]); });
              },
              transform_weight_gradient<kTaps, kEdge>,
              [&](int column, const auto& out) {
                unrolled<kTaps>([&](auto row) {
                  if (tap[row][column] >= 0) lanes::store(to + tap[row][column] * kLanes, kLanes, out[0][row]);
                });
              });
        }
      }
    }
    for (std::int64_t group = 0; group < groups; ++group) {
      from_lanes(own.taps + group * count * area_ * kLanes, in_channels_ * area_, count * area_,
                 gradient + ((first + group * kLanes) * in_channels_ + begin) * area_);
    }
  }

  Pass pass_;
  int threads_, phases_;
  std::int64_t in_channels_, out_channels_, area_;  // area_: taps of a kernel
  int tap_[kPhases][kTaps][kTaps] = {};             // where it stands in a kernel; -1: it is zero
  Problem p_;
  std::int64_t block_channels_, piece_channels_;  // of the targets of an item and of a piece of sources, of one phase
  Problem of_piece_, of_last_;      // of a piece and a block of targets; of the last ones, which may be smaller
  Blocks blocks_;                   // of a piece and an item
  std::int64_t items_at_once_ = 1;  // whose sums fill kSumBytes, and which share a piece of the source
  std::int64_t u_position_ = 0;
  Scratch scratch_;
};

template <class T>
std::unique_ptr<ConvKernel> make_typed(Pass pass, const ConvDesc& whole) {
  switch (taps_of(whole)) {
    case 3:
      return std::make_unique<StreamedKernel<3, T>>(pass, whole);
    case 4:
      return std::make_unique<StreamedKernel<4, T>>(pass, whole);
    default:
      return std::make_unique<StreamedKernel<5, T>>(pass, whole);
  }
}

}  // namespace

std::unique_ptr<ConvKernel> make_streamed(Pass pass, const ConvDesc& whole) {
  return whole.type == DType::kF32 ? make_typed<float>(pass, whole) : make_typed<Bf16>(pass, whole);
}

}  // namespace petaflow::winograd
