// Convolutions with 3 x 3 or 4 x 4 taps and stride 1 in the plane, of any depth, by Winograd's transforms: a quarter of
// the multiplications of a direct one; those with stride 2 as four of them.  Host only; f32, and bf16 with transforms
// in f32 whose results are rounded to bf16 for the products: the result's relative error is about 0.01 there. Each of
// the 36 positions of a tile is a matrix product over the blocks of winograd_tiles.hpp.
#include <algorithm>

#include "base/error.hpp"
#include "kernels/conv.hpp"
#include "kernels/exact_sum.hpp"
#include "kernels/launch.hpp"
#include "kernels/register_blocks.hpp"
#include "kernels/winograd_phases.hpp"
#include "kernels/winograd_tiles.hpp"

namespace petaflow {
namespace winograd {
namespace {

using lanes::kBlock;

/// Where the channels [k, k + width) of the targets begin in a position of the weights, (block of targets, tap, source,
/// target in block).
struct WeightOrder {
  std::int64_t sources, targets, taps;  // sources in numbers; taps in depth

  std::int64_t position() const { return taps * sources * targets; }
  std::int64_t block(std::int64_t k) const { return k * taps * sources; }
  std::int64_t width(std::int64_t k) const { return std::min<std::int64_t>(kBlock, targets - k); }
  /// Element (tap, source, target) of a position.
  std::int64_t at(std::int64_t tap, std::int64_t source, std::int64_t target) const {
    const std::int64_t k = target / kBlock * kBlock;
    return block(k) + (tap * sources + source) * width(k) + target - k;
  }
};

/// kRows rows of m, kVectors registers wide = the sum over taps and sources of v times u.
template <int kRows, int kVectors, class T>
void multiply(const Number<T>* v, std::int64_t v_stride, std::int64_t v_tap, const WeightOrder& order,
              const Number<T>* u, float* m, std::int64_t m_stride) {
  Floats sum[kRows][kVectors] = {};
  for (std::int64_t tap = 0; tap < order.taps; ++tap, v += v_tap) {
    const Number<T>* row[kRows];
    unrolled<kRows>([&](auto r) { row[r] = v + r * v_stride; });
    for (std::int64_t c = 0; c < order.sources; ++c, u += kVectors * kLanes) {
      lanes::Vector<Number<T>> weight[kVectors];
      unrolled<kVectors>([&](auto i) { lanes::load(u + i * kLanes, weight[i]); });
      unrolled<kRows>(
          [&](auto r) { unrolled<kVectors>([&](auto i) { lanes::multiply_add(sum[r][i], row[r][c], weight[i]); }); });
    }
  }
  unrolled<kRows>([&](auto r) {
    unrolled<kVectors>([&](auto i) { lanes::store(m + r * m_stride + i * kLanes, kLanes, sum[r][i]); });
  });
}

// The way back from positions to taps magnifies the error of sums four to five times, so they have levels: rows whose
// products are summed in registers, and rows whose sums are added beside them before they go to memory.
constexpr std::int64_t kRowsInRegisters = 16, kRowsAtOnce = 128;

/// kSources x kVectors registers of s += the sum over rows of v times d.
template <int kSources, int kVectors, class T>
void correlate(const Number<T>* v, std::int64_t v_stride, const Number<T>* d, std::int64_t d_stride, std::int64_t rows,
               float* s) {
  Floats total[kSources][kVectors] = {};
  in_pieces(rows, kRowsInRegisters, [&](std::int64_t, std::int64_t size) {
    Floats sum[kSources][kVectors] = {};
    for (std::int64_t r = 0; r < size; ++r, v += v_stride, d += d_stride) {
      lanes::Vector<Number<T>> gradient[kVectors];
      unrolled<kVectors>([&](auto i) { lanes::load(d + i * kLanes, gradient[i]); });
      unrolled<kSources>(
          [&](auto c) { unrolled<kVectors>([&](auto i) { lanes::multiply_add(sum[c][i], v[c], gradient[i]); }); });
    }
    unrolled<kSources>([&](auto c) { unrolled<kVectors>([&](auto i) { total[c][i] += sum[c][i]; }); });
  });
  unrolled<kSources>([&](auto c) {
    unrolled<kVectors>([&](auto i) {
      float* to = s + (c * kVectors + i) * kLanes;
      Floats before;
      lanes::load(to, before);
      lanes::store(to, kLanes, before + total[c][i]);
    });
  });
}

/// Weights or their gradient: kLanes targets of one tap in depth and one number of sources per item, in PyTorch's order
/// (target, source, tap, kTaps, kTaps) outside; `reversed`: source and target change places and the taps run backwards.
template <int kTaps>
struct Weights {
  WeightOrder order;
  bool reversed;
  int held = 1;  // sources of a number

  std::int64_t items() const { return order.targets / kLanes * order.taps * order.sources; }
  struct Item {
    std::int64_t target, tap, source;
  };
  Item item(std::int64_t i) const {
    return {i / order.sources / order.taps * kLanes, i / order.sources % order.taps, i % order.sources};
  }
  std::int64_t outside(const Item& at, int n, int lane, int tap) const {
    const std::int64_t target = at.target + lane, source = at.source * held + n, area = kTaps * kTaps;
    if (!reversed) return ((target * order.sources * held + source) * order.taps + at.tap) * area + tap;
    return ((source * order.targets + target) * order.taps + order.taps - 1 - at.tap) * area + area - 1 - tap;
  }
};

template <int kTaps, class T>
struct PackWeights {
  Weights<kTaps> weights;
  const float* from;
  Number<T>* to;

  void operator()(std::int64_t i) const {
    const auto at = weights.item(i);
    Number<T>* packed = to + weights.order.at(at.tap, at.source, at.target);
    both_ways<kTaps, kEdge, kHeld<T>>(
        [&](int n, int row, auto& in) {
          for (int k = 0; k < kTaps; ++k) {
            for (int lane = 0; lane < kLanes; ++lane) in[k][lane] = from[weights.outside(at, n, lane, row * kTaps + k)];
          }
        },
        transform_weights<kTaps>,
        [&](int column, const auto& out) {
          for (int row = 0; row < kEdge; ++row)
            store_number(packed + (row * kEdge + column) * weights.order.position(), out, row);
        });
  }
};

template <int kTaps>
struct UnpackGradient {
  Weights<kTaps> weights;
  const float* from;
  float* to;

  void operator()(std::int64_t i) const {
    const auto at = weights.item(i);
    const float* packed = from + weights.order.at(at.tap, at.source, at.target);
    both_ways<kEdge, kTaps, 1>(
        [&](int, int row, auto& in) {
          for (int column = 0; column < kEdge; ++column)
            lanes::load(packed + (row * kEdge + column) * weights.order.position(), in[column]);
        },
        transform_weight_gradient<kTaps>,
        [&](int column, const auto& out) {
          for (int row = 0; row < kTaps; ++row) {
            for (int lane = 0; lane < kLanes; ++lane)
              to[weights.outside(at, 0, lane, row * kTaps + column)] += out[0][row][lane];
          }
        });
  }
};

template <int kTaps, class T>
class WinogradKernel final : public ConvKernel {
 public:
  WinogradKernel(Pass pass, std::span<const ConvDesc> boxes)
      : pass_(pass), threads_(boxes.front().threads), weights_{{}, pass == Pass::kBackwardData} {
    const Packing packing = winograd::packing<T>(pass == Pass::kBackwardWeights);
    for (const ConvDesc& desc : boxes) {
      problems_.emplace_back(desc, weights_.reversed);
      blocks_.emplace_back(problems_.back(), packing);
      block_numbers_ = std::max(block_numbers_, blocks_.back().numbers());
    }
    const Problem& p = problems_.front();
    weights_.order = {p.sources / packing.channels, p.targets, p.d.taps};
    weights_.held = packing.channels;
    part_numbers_ = block_numbers_;
    if (pass == Pass::kBackwardWeights) {
      std::int64_t most = 0;  // blocks of a part
      for (const Blocks& blocks : blocks_) most = std::max(most, ceil_div(blocks.count(), threads_));
      sums_apart_ = threads_ > 1 || most > kFewBlocks;
      exact_ = most > std::max<std::int64_t>(kFewBlocks, blocks_in_f32());
      if (sums_apart_) part_numbers_ += elements();
      if (exact_) part_numbers_ += elements() * static_cast<std::int64_t>(sizeof(double) / sizeof(Number<T>));
    } else {
      packed_ = Packed("petaflow::conv::weights[winograd]", static_cast<std::size_t>(elements()));
    }
  }

  void refresh(const Context& context, const float* weights) override {
    if (pass_ == Pass::kBackwardWeights) return;
    launch(context, "petaflow::conv::refresh[winograd]"_label, weights_.items(),
           PackWeights<kTaps, T>{weights_, weights, packed_.data()});
  }

  void run(const Context& context, std::size_t box, const ConvArgs& args) override {
    // A part of the blocks for each thread; the parts' gradients are added in their order.
    const std::int64_t count = blocks_[box].count();
    auto* scratch = reinterpret_cast<Number<T>*>(args.scratch);
    launch(context, threads_, "petaflow::conv::parts[winograd]"_label, threads_, [&](std::int64_t part) {
      Number<T>* room = scratch + part * part_numbers_;
      float* sum = sums_apart_ ? reinterpret_cast<float*>(room + block_numbers_) : args.sum;
      double* exact = exact_ ? reinterpret_cast<double*>(sum + elements()) : nullptr;
      if (sums_apart_) std::fill_n(sum, elements(), 0.0F);
      if (exact_) std::fill_n(exact, elements(), 0.0);
      run_blocks(box, count * part / threads_, count * (part + 1) / threads_, args, room, sum, exact);
    });
    if (!sums_apart_) return;
    launch(context, threads_, "petaflow::conv::add_parts[winograd]"_label, kPositions, [&](std::int64_t position) {
      const std::int64_t size = weights_.order.position();
      for (std::int64_t part = 0; part < threads_; ++part) {
        const auto* from = reinterpret_cast<const float*>(scratch + part * part_numbers_ + block_numbers_);
        for (std::int64_t i = position * size; i < (position + 1) * size; ++i) args.sum[i] += from[i];
      }
    });
  }

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(threads_ * part_numbers_) * sizeof(Number<T>);
  }
  std::int64_t gradient_elements() const override { return pass_ == Pass::kBackwardWeights ? elements() : 0; }

  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    launch(context, "petaflow::conv::unpack_gradient[winograd]"_label, weights_.items(),
           UnpackGradient<kTaps>{weights_, sum, dw});
  }

  std::string detail() const override { return fmt::format("winograd F({0}x{0}, {1}x{1})", kTile, kTaps); }

 private:
  using Packed = Kokkos::View<Number<T>*, Kokkos::HostSpace>;
  static constexpr int kTile = kEdge + 1 - kTaps;
  static constexpr std::int64_t kFewBlocks = 5;  // whose gradients are added to those of other boxes one by one

  std::int64_t elements() const { return kPositions * weights_.order.position(); }

  std::int64_t blocks_in_f32() const {
    return static_cast<std::int64_t>(sums_in_f32(static_cast<std::size_t>(elements())));
  }

  /// @param exact  room for sums in double, which become `sum`; nullptr: all are in f32
  void run_blocks(std::size_t box, std::int64_t begin, std::int64_t end, const ConvArgs& args, Number<T>* v, float* sum,
                  double* exact) const {
    constexpr int kTiles = packing<T>(true).tiles;
    const Problem& p = problems_[box];
    const Blocks& blocks = blocks_[box];
    Number<T>* m = v + kPositions * blocks.v_position;
    auto* source = static_cast<T*>(weights_.reversed ? args.y : args.x);
    auto* target = static_cast<T*>(weights_.reversed ? args.x : args.y);
    for (std::int64_t i = begin; i < end; ++i) {
      const Block block = blocks[i];
      if (pass_ == Pass::kBackwardWeights) {
        transform_sources<kTiles>(p, blocks, block, source, v);
        transform_gradients<kTile, kTiles>(p, blocks, block, target, m);
        correlate_positions(blocks, block, v, m, sum);
        if (exact != nullptr && ((i + 1 - begin) % blocks_in_f32() == 0 || i + 1 == end))
          move_sum(sum, exact, static_cast<std::size_t>(elements()));
      } else {
        auto* sums = reinterpret_cast<float*>(m);
        transform_sources<1>(p, blocks, block, source, v);
        multiply_positions(blocks, block, v, sums);
        write_targets<kTile>(p, blocks, block, sums, target);
      }
    }
    if (exact != nullptr) round_sum(exact, sum, static_cast<std::size_t>(elements()));
  }

  void multiply_positions(const Blocks& blocks, const Block& block, const Number<T>* v, float* m) const {
    const WeightOrder& order = weights_.order;
    for (int position = 0; position < kPositions; ++position) {
      const Number<T>* u = packed_.data() + position * order.position();
      for (std::int64_t k = 0; k < order.targets; k += kBlock) {
        with_constant<lanes::kVectors>(order.width(k) / kLanes, [&](auto vectors) {
          in_pieces(block.planes * block.tiles, lanes::kPoints, [&](std::int64_t begin, std::int64_t rows) {
            with_constant<lanes::kPoints>(rows, [&](auto count) {
              multiply<count, vectors, T>(v + position * blocks.v_position + begin * blocks.v_stride, blocks.v_stride,
                                          block.tiles * blocks.v_stride, order, u + order.block(k),
                                          m + position * blocks.m_position + begin * blocks.m_stride + k,
                                          blocks.m_stride);
            });
          });
        });
      }
    }
  }

  void correlate_positions(const Blocks& blocks, const Block& block, const Number<T>* v, const Number<T>* d,
                           float* sum) const {
    const WeightOrder& order = weights_.order;
    for (int position = 0; position < kPositions; ++position) {
      for (std::int64_t tap = 0; tap < order.taps; ++tap) {
        for (std::int64_t k = 0; k < order.targets; k += kBlock) {
          with_constant<lanes::kVectors>(order.width(k) / kLanes, [&](auto vectors) {
            in_pieces(order.sources, kBlockRows<vectors>, [&](std::int64_t c, std::int64_t sources) {
              with_constant<kBlockRows<vectors>>(sources, [&](auto count) {
                in_pieces(block.planes * block.rows, kRowsAtOnce, [&](std::int64_t row, std::int64_t rows) {
                  correlate<count, vectors, T>(
                      v + position * blocks.v_position + (tap * block.rows + row) * blocks.v_stride + c,
                      blocks.v_stride, d + position * blocks.m_position + row * blocks.m_stride + k, blocks.m_stride,
                      rows, sum + position * order.position() + order.at(tap, c, k));
                });
              });
            });
          });
        }
      }
    }
  }

  Pass pass_;
  int threads_;
  Weights<kTaps> weights_;
  std::vector<Problem> problems_;
  std::vector<Blocks> blocks_;
  Packed packed_;
  std::int64_t block_numbers_ = 0, part_numbers_ = 0;  // of a block's transforms, and all that a thread needs
  bool sums_apart_ = false, exact_ = false;            // gradients of a part's blocks; many: in double
};

std::string why_not_layer(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  const Extent ones{1, 1, 1};
  if (g.kernel.h != g.kernel.w || (g.kernel.h != 3 && g.kernel.h != 4)) return "for 3 x 3 and 4 x 4 taps only";
  if (g.stride != ones || g.dilation != ones || g.groups != 1) return "without stride, dilation and groups only";
  if (desc.in_channels % kLanes != 0 || desc.out_channels % kLanes != 0)
    return fmt::format("for multiples of {} channels only", kLanes);
  return {};
}

// Tiles for each thread: transformed weights are two to four times as large, and are read, or summed, by each of them
// for each box.
constexpr std::int64_t kFewest = 48;

std::string why_not_neighbours(Pass pass, std::span<const ConvDesc> boxes) {
  const ConvDesc& first = boxes.front();
  if (std::string reason = why_not_layer(first); !reason.empty()) return reason;
  if (first.transforms) return *first.transforms ? "" : "the layer has too few tiles, or most of them lie outside";
  std::int64_t rows = 0;  // of the largest box
  for (const ConvDesc& desc : boxes) {
    const Problem p(desc, pass == Pass::kBackwardData);
    const std::int64_t tiles = p.tiles_h() * p.tiles_w();
    rows = std::max(rows, p.samples * p.d.targets * tiles);
    if (tiles * p.tile() * p.tile() > 2 * p.h.targets * p.w.targets) return "most of its tiles lie outside";
  }
  if (rows < kFewest * first.threads)
    return fmt::format("{} tiles of a box are too few for {} thread(s), which take {} each", rows, first.threads,
                       kFewest);
  return {};
}

std::string why_not(Pass pass, std::span<const ConvDesc> boxes) {
  if (!has_phases(boxes.front())) return why_not_neighbours(pass, boxes);
  const ConvGeometry& g = boxes.front().geometry;
  if (g.kernel.h != g.kernel.w || g.kernel.h < 5) return "with stride 2 for 5 x 5 to 8 x 8 taps only";
  for (const ConvDesc& box : boxes) {
    if (std::min(box.in.h, box.in.w) < 2) return "without phases that have no pixel only";
  }
  for (int phase = 0; phase < kPhases; ++phase) {
    std::string reason = why_not_neighbours(pass, phase_of(boxes, phase));
    if (!reason.empty()) return reason;
  }
  return {};
}

template <class T>
std::unique_ptr<ConvKernel> make_typed(Pass pass, std::span<const ConvDesc> boxes) {
  switch (boxes.front().geometry.kernel.h) {
    case 3:
      return std::make_unique<WinogradKernel<3, T>>(pass, boxes);
    default:
      return std::make_unique<WinogradKernel<4, T>>(pass, boxes);
  }
}

std::unique_ptr<ConvKernel> make_neighbours(Pass pass, std::span<const ConvDesc> boxes) {
  return boxes.front().type == DType::kF32 ? make_typed<float>(pass, boxes) : make_typed<Bf16>(pass, boxes);
}

std::unique_ptr<ConvKernel> make(Pass pass, std::span<const ConvDesc> boxes) {
  if (has_phases(boxes.front())) return std::make_unique<PhasesKernel>(pass, boxes, make_neighbours);
  return make_neighbours(pass, boxes);
}

}  // namespace
}  // namespace winograd

BoxRows winograd_rows(Pass pass, const ConvDesc& whole) {
  if (!winograd::why_not(pass, {&whole, 1}).empty()) return {};
  if (winograd::has_phases(whole)) {
    BoxRows rows = winograd_rows(pass, winograd::phase_of(whole, 0).desc);
    const std::int64_t of_box = pass == Pass::kBackwardData ? 2 : 1;  // rows of x, or of y
    rows.align *= of_box, rows.least *= of_box;
    return rows;
  }
  const winograd::Problem p(whole, pass == Pass::kBackwardData);
  const std::int64_t of_plane = p.tiles_h() * p.tiles_w(),
                     samples = ceil_div(winograd::kFewest, p.d.targets * of_plane);
  // Boxes transform the planes that they share with their neighbours again, and should not cut tiles.
  if (whole.out.d > 1)
    return {1, std::max(2 * whole.geometry.kernel.d, ceil_div(winograd::kFewest, of_plane)), samples, true};
  return {p.tile(), ceil_div(winograd::kFewest, p.tiles_w()) * p.tile(), samples, true};
}

extern const ConvImpl kConvWinograd;
const ConvImpl kConvWinograd = {"winograd", winograd::why_not, winograd::make, ConvScope::kTransform};

}  // namespace petaflow
