// Weights of Winograd's convolutions and their gradients, between PyTorch's order and the transforms' own: a matrix for
// each position of a patch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/register_blocks.hpp"
#include "kernels/winograd_phases.hpp"
#include "kernels/winograd_transforms.hpp"

namespace petaflow::winograd {

using lanes::kBlock;
using lanes::kHeld;
using lanes::kLanes;
using lanes::Number;

/// Where the channels [k, k + width) of the targets begin in a position of the weights, (block of targets, tap, source,
/// target in block).
struct WeightOrder {
  std::int64_t sources, targets, taps;  // sources in numbers; taps in depth

  /// Numbers of a position: an odd number of cache lines.  Those that belong together, one of each position, fall into
  /// different sets of a cache so; where all were a multiple of 4 KiB apart they drove each other out.
  std::int64_t position() const {
    constexpr std::int64_t kLine = 16;
    return (ceil_div(taps * sources * targets, kLine) | 1) * kLine;
  }
  std::int64_t block(std::int64_t k) const { return k * taps * sources; }
  std::int64_t width(std::int64_t k) const { return std::min<std::int64_t>(kBlock, targets - k); }
  /// Element (tap, source, target) of a position.
  std::int64_t at(std::int64_t tap, std::int64_t source, std::int64_t target) const {
    const std::int64_t k = target / kBlock * kBlock;
    return block(k) + (tap * sources + source) * width(k) + target - k;
  }
};

/// Weights or their gradient: kLanes targets of one tap in depth and one number of sources per item, in PyTorch's order
/// (target, source, tap, kernel, kernel) outside; `reversed`: source and target change places and the taps run
/// backwards.  Channels of x are those of all its phases, each of which has its own taps.
template <int kTaps>
struct Weights {
  WeightOrder order;
  bool reversed;
  std::int64_t kernel;                                     // taps of a direction
  std::int64_t in_channels;                                // of x
  int phases;                                              // 1, 4
  bool zero_row_first = false, zero_column_first = false;  // begins_with_zero()
  int held = 1;                                            // sources of a number

  std::int64_t items() const { return order.targets / kLanes * order.taps * order.sources; }
  struct Item {
    std::int64_t target, tap, source;
  };
  /// Those that fill a cache line follow each other: the lanes of a block of targets.
  Item item(std::int64_t i) const {
    const std::int64_t of_block = lanes::kVectors * order.taps * order.sources, k = i / of_block * kBlock,
                       vectors = order.width(k) / kLanes, in_block = i % of_block, row = in_block / vectors;
    return {k + in_block % vectors * kLanes, row / order.sources, row % order.sources};
  }
  /// Where tap (row, column) of the plane stands for the first target; nothing: it is zero.
  std::optional<std::int64_t> outside(const Item& at, int n, int row, int column) const {
    const std::int64_t source = at.source * held + n, of_x = reversed ? at.target : source, in = of_x % in_channels,
                       out = reversed ? source : at.target;
    std::int64_t h = reversed ? kTaps - 1 - row : row, w = reversed ? kTaps - 1 - column : column;
    if (phases > 1) {
      const auto& [first_h, first_w] = kFirstTaps[static_cast<std::size_t>(of_x / in_channels)];
      h = 2 * (h - (first_h == 1 && zero_row_first ? 1 : 0)) + first_h;
      w = 2 * (w - (first_w == 1 && zero_column_first ? 1 : 0)) + first_w;
    }
    if (h < 0 || w < 0 || h >= kernel || w >= kernel) return std::nullopt;
    const std::int64_t tap = reversed ? order.taps - 1 - at.tap : at.tap;
    return (((out * in_channels + in) * order.taps + tap) * kernel + h) * kernel + w;
  }
  std::int64_t target_stride() const { return (reversed ? 1 : in_channels) * order.taps * kernel * kernel; }
};

/// To numbers of products in P.
template <int kTaps, int kEdge, class P>
struct PackWeights {
  Weights<kTaps> weights;
  const float* from;
  Number<P>* to;

  void operator()(std::int64_t i) const {
    const auto at = weights.item(i);
    Number<P>* packed = to + weights.order.at(at.tap, at.source, at.target);
    const std::int64_t stride = weights.target_stride();
    both_ways<kTaps, kEdge, kHeld<P>>(
        [&](int n, int row, auto& in) {
          for (int k = 0; k < kTaps; ++k) {
            const auto place = weights.outside(at, n, row, k);
            for (int lane = 0; lane < kLanes; ++lane) in[k][lane] = place ? from[*place + lane * stride] : 0;
          }
        },
        transform_weights<kTaps, kEdge>,
        [&](int column, const auto& out) {
          for (int row = 0; row < kEdge; ++row)
            store_number(packed + (row * kEdge + column) * weights.order.position(), out, row);
        });
  }
};

template <int kTaps, int kEdge>
struct UnpackGradient {
  // Numbers of a position in front of those that are read: there are more positions than a processor sees orders.
  static constexpr std::int64_t kAhead = 8 * kLanes;

  Weights<kTaps> weights;
  const float* from;
  float* to;

  void operator()(std::int64_t i) const {
    const auto at = weights.item(i);
    const float* packed = from + weights.order.at(at.tap, at.source, at.target);
    const std::int64_t stride = weights.target_stride();
    both_ways<kEdge, kTaps, 1>(
        [&](int, int row, auto& in) {
          for (int column = 0; column < kEdge; ++column) {
            const float* const numbers = packed + (row * kEdge + column) * weights.order.position();
            lanes::load(numbers, in[column]);
            __builtin_prefetch(numbers + kAhead);
          }
        },
        transform_weight_gradient<kTaps, kEdge>,
        [&](int column, const auto& out) {
          for (int row = 0; row < kTaps; ++row) {
            const auto place = weights.outside(at, 0, row, column);
            for (int lane = 0; place && lane < kLanes; ++lane) to[*place + lane * stride] = out[0][row][lane];
          }
        });
  }
};

}  // namespace petaflow::winograd
