// Weights of Winograd's convolutions and their gradients, between PyTorch's order and the transforms' own: a matrix for
// each position of a patch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/register_blocks.hpp"
#include "kernels/winograd_transforms.hpp"

namespace petaflow::winograd {

using lanes::kBlock;
using lanes::kHeld;
using lanes::kLanes;
using lanes::Number;

/// Which taps of a layer's weights a kernel computes with, in one direction: first, first + step, ...; those from
/// `kernel` on are zero.
struct TapsOf {
  std::int64_t kernel, step = 1, first_row = 0, first_column = 0;
};

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
/// (target, source, tap, kTaps, kTaps) outside; `reversed`: source and target change places and the taps run backwards.
template <int kTaps>
struct Weights {
  WeightOrder order;
  bool reversed;
  TapsOf of;
  int held = 1;  // sources of a number

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
    const std::int64_t source = at.source * held + n, h = of.first_row + of.step * (reversed ? kTaps - 1 - row : row),
                       w = of.first_column + of.step * (reversed ? kTaps - 1 - column : column),
                       tap = reversed ? order.taps - 1 - at.tap : at.tap;
    if (h >= of.kernel || w >= of.kernel) return std::nullopt;
    return source * source_stride() + at.target * target_stride() + (tap * of.kernel + h) * of.kernel + w;
  }
  std::int64_t source_stride() const { return (reversed ? order.targets : 1) * order.taps * of.kernel * of.kernel; }
  std::int64_t target_stride() const {
    return (reversed ? 1 : order.sources * held) * order.taps * of.kernel * of.kernel;
  }
};

/// To numbers of products in P.
template <int kTaps, class P>
struct PackWeights {
  static constexpr int kEdge = edge_of(kTaps);
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
        transform_weights<kTaps>,
        [&](int column, const auto& out) {
          for (int row = 0; row < kEdge; ++row)
            store_number(packed + (row * kEdge + column) * weights.order.position(), out, row);
        });
  }
};

template <int kTaps>
struct UnpackGradient {
  static constexpr int kEdge = edge_of(kTaps);
  Weights<kTaps> weights;
  const float* from;
  float* to;

  void operator()(std::int64_t i) const {
    const auto at = weights.item(i);
    const float* packed = from + weights.order.at(at.tap, at.source, at.target);
    const std::int64_t stride = weights.target_stride();
    both_ways<kEdge, kTaps, 1>(
        [&](int, int row, auto& in) {
          for (int column = 0; column < kEdge; ++column)
            lanes::load(packed + (row * kEdge + column) * weights.order.position(), in[column]);
        },
        transform_weight_gradient<kTaps>,
        [&](int column, const auto& out) {
          for (int row = 0; row < kTaps; ++row) {
            const auto place = weights.outside(at, 0, row, column);
            for (int lane = 0; place && lane < kLanes; ++lane) to[*place + lane * stride] += out[0][row][lane];
          }
        });
  }
};

}  // namespace petaflow::winograd
