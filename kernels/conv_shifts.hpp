// Backward weights of convolutions in bf16 on AMX tiles (Intel) or by dot products of pairs (AVX512_BF16), stride 1:
//
//   dw(tap, c, k) = sum_q x(c, q + shift(tap)) dy(q, k)
//
// The positions q are the pixels of a block, line after line; between lines, planes and samples lies padding, as much
// as makes every tap a shift along q.  Products take groups of positions, those without a target left out.  x is
// transposed to (c, q), where a tap moves the address of an AMX tile, and dy to pairs of positions.  Few input channels
// fill none: then there is a row for each (tap, c), copied from x with its shift.
//
// Four AMX tiles of sums take four loads (8 cycles each, more for those of x, whose rows cross lines of the cache) and
// four products (16 cycles and 16,384 flop each), and 8 KiB of sums are read and written in 48 products.  Transposition
// moves 2 / (K taps) + 2 / (C taps) bytes per flop, copies 2 / K.  The rate of AMX has not been measured.
//
// In vectors of AVX-512, the sums of 8 rows and 32 columns stay in registers for 192 pairs: eight loads of one pair and
// two of vectors for 16 products.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/launch.hpp"
#include "kernels/pixel_blocks.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow::shifts {

using lanes::unrolled;

inline constexpr int kEdge = 16;                    // channels of a block: rows and columns of an AMX tile of sums
inline constexpr int kElements = kEdge * kStep;     // of an AMX tile of bf16
inline constexpr int kSums = kEdge * kEdge;         // of an AMX tile of f32
inline constexpr std::int64_t kPiece = 12 * kStep;  // positions summed in registers: 36 KiB of dy and two taps of x
// Bytes of x and dy in their new orders: half of the L2 cache where there is AMX, all of it on other processors.
inline constexpr std::int64_t kBlockBytes = 1 << 20;

using HalfWords = std::uint16_t __attribute__((vector_size(kEdge * 2)));
using Words = std::uint32_t __attribute__((vector_size(kEdge * 4)));

/// pairs[i][j]: channel j of the pixels 2 i and 2 i + 1.
template <int... kLane>
void pair_channels(const Bf16* const (&at)[kStep], std::int64_t channel, Words (&pairs)[kEdge],
                   std::integer_sequence<int, kLane...>) {
  unrolled<kEdge>([&](auto i) {
    HalfWords first, second;
    std::memcpy(&first, at[2 * i] + channel, sizeof first);
    std::memcpy(&second, at[2 * i + 1] + channel, sizeof second);
    const auto both = __builtin_shufflevector(first, second, (kLane % 2 * kEdge + kLane / 2)...);
    pairs[i] = __builtin_bit_cast(Words, both);
  });
}
inline void pair_channels(const Bf16* const (&at)[kStep], std::int64_t channel, Words (&pairs)[kEdge]) {
  pair_channels(at, channel, pairs, std::make_integer_sequence<int, kStep>{});
}

/// Exchanges the blocks of kSize x kSize numbers beside the diagonal of every block of 2 kSize x 2 kSize.
template <int kSize, int... kLane>
void exchange(Words (&rows)[kEdge], std::integer_sequence<int, kLane...>) {
  unrolled<kEdge / 2>([&](auto i) {
    constexpr int kLow = i / kSize * 2 * kSize + i % kSize, kHigh = kLow + kSize;
    const Words low = rows[kLow], high = rows[kHigh];
    rows[kLow] = __builtin_shufflevector(low, high, ((kLane & kSize) == 0 ? kLane : kEdge + kLane - kSize)...);
    rows[kHigh] = __builtin_shufflevector(low, high, ((kLane & kSize) == 0 ? kLane + kSize : kEdge + kLane)...);
  });
}

inline void transpose(Words (&rows)[kEdge]) {
  constexpr auto kLanes = std::make_integer_sequence<int, kEdge>{};
  exchange<8>(rows, kLanes);
  exchange<4>(rows, kLanes);
  exchange<2>(rows, kLanes);
  exchange<1>(rows, kLanes);
}

/// Up to two by two blocks of sums: sum(i, j) += sum_p a(i, p) b(p, j), p over all positions of some groups.
struct Products {
  std::span<const std::int32_t> groups;  // of positions that are summed over
  std::array<const Bf16*, 2> a;          // 16 rows of positions each
  std::int64_t a_stride;                 // elements between rows
  const Bf16* b;                         // 16 columns: rows of pairs
  std::int64_t b_column;                 // elements to the other 16 columns
  float* sum;                            // kSums: 16 rows; the other 16 rows follow
  std::int64_t sum_column;               // elements to the other 16 columns
};

/// By AMX tiles: AmxTiles or what stands for their instructions.
template <class Amx>
class AmxProducts {
 public:
  static constexpr const char* kName = "amx";
  static constexpr std::int64_t kGroup = kStep;     // positions that are summed together
  static constexpr std::int64_t kLineMultiple = 1;  // the pitch of lines is a multiple of it

  /// AMX tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns.
  template <int kRows, int kColumns>
  void add(const Products& of) {
    constexpr std::int64_t kRowBytes = 64;
    const auto for_sums = [&](const auto& f) {
      unrolled<kRows>(
          [&](auto r) { unrolled<kColumns>([&](auto c) { f(r, c, of.sum + c * of.sum_column + r * kSums); }); });
    };
    for_sums([&](auto r, auto c, const float* at) { amx_.template load<2 * r + c>(at, kRowBytes); });
    for (const std::int64_t step : of.groups) {
      unrolled<kRows>([&](auto r) { amx_.template load<4 + r>(of.a[r] + step * kStep, 2 * of.a_stride); });
      unrolled<kColumns>(
          [&](auto c) { amx_.template load<6 + c>(of.b + c * of.b_column + step * kElements, kRowBytes); });
      for_sums([&](auto r, auto c, const float*) { amx_.template multiply_add<2 * r + c, 4 + r, 6 + c>(); });
    }
    for_sums([&](auto r, auto c, float* at) { amx_.template store<2 * r + c>(at, kRowBytes); });
  }

 private:
  Amx amx_;
};

/// By dot products of pairs in vectors: some rows at a time, whose sums take half of the registers.
class DotProducts {
 public:
  static constexpr const char* kName = "dots";
  static constexpr std::int64_t kGroup = 2;
  static constexpr std::int64_t kLineMultiple = 2;  // so that no pair holds parts of two lines

  template <int kRows, int kColumns>
  void add(const Products& of) {
    constexpr int kHeldRows = lanes::kRegisters / 2 / kColumns;
    static_assert(kEdge % kHeldRows == 0 && kEdge % lanes::kLanes == 0);
    for (int row = 0; row < kRows * kEdge; row += kHeldRows) {
      for (int lane = 0; lane < kEdge; lane += lanes::kLanes) add_rows<kHeldRows, kColumns>(of, row, lane);
    }
  }

 private:
  template <int kHeldRows, int kColumns>
  static void add_rows(const Products& of, int row, int lane) {
    lanes::Floats sums[kHeldRows][kColumns];
    const auto for_sums = [&](const auto& f) {
      unrolled<kHeldRows>([&](auto i) {
        unrolled<kColumns>([&](auto c) { f(sums[i][c], of.sum + c * of.sum_column + (row + i) * kEdge + lane); });
      });
    };
    for_sums([](lanes::Floats& sum, const float* at) { lanes::load(at, sum); });
    const Bf16* a[kHeldRows];
    unrolled<kHeldRows>(
        [&](auto i) { a[i] = of.a[static_cast<std::size_t>(row / kEdge)] + (row % kEdge + i) * of.a_stride; });
    const auto* const b = reinterpret_cast<const lanes::Bf16Pair*>(of.b) + lane;
    for (const std::int64_t pair : of.groups) {
      lanes::Pairs columns[kColumns];
      unrolled<kColumns>([&](auto c) { lanes::load(b + c * of.b_column / 2 + pair * kEdge, columns[c]); });
      unrolled<kHeldRows>([&](auto i) {
        lanes::Bf16Pair both;
        std::memcpy(&both, a[i] + 2 * pair, sizeof both);
        unrolled<kColumns>([&](auto c) { lanes::multiply_add(sums[i][c], both, columns[c]); });
      });
    }
    for_sums([](const lanes::Floats& sum, float* at) { lanes::store(at, lanes::kLanes, sum); });
  }
};

/// Unit: AmxProducts or DotProducts.
template <class Unit>
class ShiftsKernel final : public ConvKernel {
 public:
  /// @param most_bytes  of a block
  ShiftsKernel(std::span<const ConvDesc> tiles, std::int64_t most_bytes) : tiles_(tiles.begin(), tiles.end()) {
    const ConvDesc& desc = tiles_.front();
    const ConvGeometry& g = desc.geometry;
    channels_ = desc.in_channels;
    taps_ = g.kernel.volume();
    span_ = {(g.kernel.d - 1) * g.dilation.d, (g.kernel.h - 1) * g.dilation.h, (g.kernel.w - 1) * g.dilation.w};
    copies_taps_ = channels_ < kEdge;
    row_blocks_ = copies_taps_ ? ceil_div(taps_ * channels_, kEdge) : taps_ * ceil_div(channels_, kEdge);
    columns_ = ceil_div(desc.out_channels, kEdge);
    zeros_.resize(static_cast<std::size_t>(std::max(channels_, desc.out_channels)));
    for (const ConvDesc& tile : tiles_) {
      auto& parts = parts_.emplace_back();
      for (const Block& block : cut(tile, most_bytes)) {
        parts.push_back({block, block.groups(Unit::kGroup)});
        scratch_bytes_ = std::max(scratch_bytes_, bytes(block));
      }
    }
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const ConvDesc& desc = tiles_[tile];
    for (const Part& part : parts_[tile]) {
      const Block& block = part.block;
      const std::span<const std::int32_t> groups = part.groups;
      const Scratch at = scratch_of(block);
      auto* const scratch = reinterpret_cast<Bf16*>(args.scratch);
      Bf16 *const y = scratch + at.y, *const x = scratch + at.x, *const copies = scratch + at.copies;
      const std::int64_t x_steps = block.x_steps(span_);
      launch(context, desc.threads, "petaflow::conv::transpose[shifts]"_label, x_steps + block.steps(),
             [&](std::int64_t step) {
               if (step < x_steps) {
                 pack_x(block.x(static_cast<const Bf16*>(args.x), desc.x_strides), block, step, x);
               } else {
                 pack_y(block.y(static_cast<const Bf16*>(args.y), desc.y_strides), block, step - x_steps, y);
               }
             });
      if (copies_taps_) {
        launch(context, desc.threads, "petaflow::conv::copy_taps[shifts]"_label, row_blocks_ * kEdge,
               [&](std::int64_t row) { copy_tap(block, row, x, copies); });
      }
      in_pieces(std::ssize(groups), kPiece / Unit::kGroup, [&](std::int64_t first, std::int64_t count) {
        const std::int64_t pairs = ceil_div(row_blocks_, 2) * ceil_div(columns_, 2), teams = desc.threads;
        launch(context, desc.threads, "petaflow::conv::products[shifts]"_label, teams, [&](std::int64_t team) {
          Unit unit;
          for (std::int64_t i = pairs * team / teams; i < pairs * (team + 1) / teams; ++i)
            add_pair(unit, block, i, groups.subspan(first, count), copies_taps_ ? copies : x, y, args.sum);
        });
      });
    }
  }

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(scratch_bytes_); }
  std::int64_t gradient_elements() const override { return row_blocks_ * columns_ * kSums; }

  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    launch(context, "petaflow::conv::unpack_gradient[shifts]"_label, columns_ * channels_, [=, this](std::int64_t i) {
      const std::int64_t column = i / channels_, c = i % channels_, k0 = column * kEdge;
      const std::int64_t first = copies_taps_ ? c : c / kEdge * taps_ * kEdge + c % kEdge,
                         step = copies_taps_ ? channels_ : kEdge;  // rows from tap to tap
      const float* from = sum + (column * row_blocks_ * kEdge + first) * kEdge;
      for (std::int64_t k = 0; k < std::min<std::int64_t>(kEdge, tiles_.front().out_channels - k0); ++k) {
        float* to = dw + ((k0 + k) * channels_ + c) * taps_;
        for (std::int64_t tap = 0; tap < taps_; ++tap) to[tap] = from[tap * step * kEdge + k];
      }
    });
  }

  std::string detail() const override { return Unit::kName; }

 private:
  std::vector<Block> cut(const ConvDesc& desc, std::int64_t most_bytes) const {
    const ConvGeometry& g = desc.geometry;
    std::int64_t n = desc.n, d = desc.out.d, h = desc.out.h;
    const auto block = [&](std::int64_t n0, std::int64_t d0, std::int64_t h0) -> Block {
      return {n0,
              std::min(n, desc.n - n0),
              {desc.in.d, span_.d, g.pad_begin.d, d0, std::min(d0 + d, desc.out.d)},
              {desc.in.h, span_.h, g.pad_begin.h, h0, std::min(h0 + h, desc.out.h)},
              {desc.in.w, span_.w, g.pad_begin.w, 0, desc.out.w, Unit::kLineMultiple}};
    };
    while (n * d * h > 1 && bytes(block(0, 0, 0)) > most_bytes) {
      // Neighbours share sources: fewest where the direction is long for its taps.
      std::int64_t& longest = n > 1 ? n : d > 1 && (h == 1 || d * g.kernel.h >= h * g.kernel.d) ? d : h;
      longest = ceil_div(longest, 2);
    }
    std::vector<Block> blocks;
    for (std::int64_t n0 = 0; n0 < desc.n; n0 += n) {
      for (std::int64_t d0 = 0; d0 < desc.out.d; d0 += d) {
        for (std::int64_t h0 = 0; h0 < desc.out.h; h0 += h) blocks.push_back(block(n0, d0, h0));
      }
    }
    return blocks;
  }

  std::int64_t x_rows() const { return ceil_div(channels_, kEdge) * kEdge; }
  // Positions between rows.  Odd numbers of cache lines: the rows of an AMX tile then lie in different sets of the
  // cache.
  std::int64_t x_pitch(const Block& block) const { return (block.x_steps(span_) | 1) * kStep; }
  std::int64_t copies_pitch(const Block& block) const { return (block.steps() | 1) * kStep; }
  std::int64_t bytes(const Block& block) const { return 2 * scratch_of(block).elements; }

  /// Where the operands of a block lie in their new orders, in elements of bf16.
  struct Scratch {
    std::int64_t y;       // (block of 16 targets, pair of positions, target, position of the pair)
    std::int64_t x;       // (channel, position)
    std::int64_t copies;  // few channels: (tap and channel, position), x with the shift of the tap
    std::int64_t elements;
  };
  Scratch scratch_of(const Block& block) const {
    const std::int64_t x = columns_ * block.steps() * kElements, copies = x + x_rows() * x_pitch(block);
    return {0, x, copies, copies + (copies_taps_ ? row_blocks_ * kEdge * copies_pitch(block) : 0)};
  }

  void pack_x(const Frame& frame, const Block& block, std::int64_t step, Bf16* x) const {
    const Bf16* at[kStep];
    frame.find(step, zeros_.data(), at);
    const std::int64_t pitch = x_pitch(block);
    for (std::int64_t c = 0; c < channels_; c += kEdge) {
      Bf16* to = x + c * pitch + step * kStep;
      if (c + kEdge <= channels_) {
        Words rows[kEdge];
        pair_channels(at, c, rows);
        transpose(rows);
        unrolled<kEdge>([&](auto i) { std::memcpy(static_cast<void*>(to + i * pitch), &rows[i], sizeof rows[i]); });
      } else {
        // Rows that are not copied are multiplied.
        const std::int64_t rows = copies_taps_ ? channels_ : kEdge;
        for (std::int64_t i = 0; i < rows; ++i) {
          for (int q = 0; q < kStep; ++q) to[i * pitch + q] = c + i < channels_ ? at[q][c + i] : Bf16{};
        }
      }
    }
  }

  void pack_y(const Frame& frame, const Block& block, std::int64_t step, Bf16* y) const {
    const Bf16* at[kStep];
    frame.find(step, zeros_.data(), at);
    const std::int64_t channels = tiles_.front().out_channels;
    for (std::int64_t column = 0; column < columns_; ++column) {
      Bf16* to = y + (column * block.steps() + step) * kElements;
      if ((column + 1) * kEdge <= channels) {
        Words rows[kEdge];
        pair_channels(at, column * kEdge, rows);
        std::memcpy(static_cast<void*>(to), rows, sizeof rows);
      } else {
        for (std::int64_t i = 0; i < kEdge; ++i) {
          const std::int64_t k = column * kEdge + i;
          for (int q = 0; q < kStep; ++q) to[q / 2 * kStep + 2 * i + q % 2] = k < channels ? at[q][k] : Bf16{};
        }
      }
    }
  }

  std::int64_t shift(const Block& block, std::int64_t tap) const {
    const ConvGeometry& g = tiles_.front().geometry;
    return block.shift({tap / g.kernel.w / g.kernel.h * g.dilation.d, tap / g.kernel.w % g.kernel.h * g.dilation.h,
                        tap % g.kernel.w * g.dilation.w});
  }

  void copy_tap(const Block& block, std::int64_t row, const Bf16* x, Bf16* copies) const {
    const std::int64_t count = block.steps() * kStep, tap = row / channels_;
    Bf16* to = copies + row * copies_pitch(block);
    if (tap < taps_) {
      std::copy_n(x + row % channels_ * x_pitch(block) + shift(block, tap), count, to);
    } else {
      std::fill_n(to, count, Bf16{});
    }
  }

  /// Adds the sums of up to two by two blocks of rows and columns over some groups of positions.
  void add_pair(Unit& unit, const Block& block, std::int64_t pair, std::span<const std::int32_t> groups, const Bf16* x,
                const Bf16* y, float* sum) const {
    const std::int64_t row_pairs = ceil_div(row_blocks_, 2), row = pair % row_pairs * 2, column = pair / row_pairs * 2;
    const std::int64_t stride = copies_taps_ ? copies_pitch(block) : x_pitch(block);
    const auto a = [&](std::int64_t i) {
      return x + (copies_taps_ ? i * kEdge * stride : i / taps_ * kEdge * stride + shift(block, i % taps_));
    };
    const Bf16* const b = y + column * block.steps() * kElements;
    with_constant<2>(std::min<std::int64_t>(2, row_blocks_ - row), [&](auto rows) {
      with_constant<2>(std::min<std::int64_t>(2, columns_ - column), [&](auto columns) {
        unit.template add<rows, columns>({groups,
                                          {a(row), rows == 2 ? a(row + 1) : nullptr},
                                          stride,
                                          b,
                                          block.steps() * kElements,
                                          sum + (column * row_blocks_ + row) * kSums,
                                          row_blocks_ * kSums});
      });
    });
  }

  struct Part {
    Block block;
    std::vector<std::int32_t> groups;  // of positions with targets
  };

  std::vector<ConvDesc> tiles_;
  std::vector<std::vector<Part>> parts_;  // of each tile
  std::int64_t channels_ = 0, taps_ = 0;
  Extent span_;                                // from the first to the last tap
  bool copies_taps_ = false;                   // a row is a (tap, channel), otherwise a channel
  std::int64_t row_blocks_ = 0, columns_ = 0;  // blocks of (tap, channel) of x and of channels of dy
  std::int64_t scratch_bytes_ = 0;
  std::vector<Bf16> zeros_;
};

/// Empty where the kernel accepts the tiles, otherwise the reason; may_use_amx() says whether there is AMX at all.
inline std::string why_not(Pass pass, std::span<const ConvDesc> tiles) {
  const ConvDesc& desc = tiles.front();
  const ConvGeometry& g = desc.geometry;
  if (pass != Pass::kBackwardWeights || desc.type != DType::kBf16) return "for backward weights in bf16 only";
  if (g.stride != Extent{1, 1, 1} || g.groups != 1) return "without stride and groups only";
  if (g.kernel.volume() == 1) return "for several taps only";
  return {};
}

template <class Unit, std::int64_t kMostBytes = kBlockBytes>
std::unique_ptr<ConvKernel> make(Pass /*pass*/, std::span<const ConvDesc> tiles) {
  return std::make_unique<ShiftsKernel<Unit>>(tiles, kMostBytes);
}

}  // namespace petaflow::shifts
