// Weights of windows of one pixel, from PyTorch's order into that in which oneDNN's kernels read them: (block of
// targets, source, target in block), in bf16 with pairs of sources.  Where that is the format, this takes the place of
// oneDNN's reorder, which moves it an element at a time (54 million weights of DeepCAM, Zen 4, two threads: 50 ms for
// forward and 81 for backward data in bf16, 44 and 33 in f32).
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/conv.hpp"
#include "kernels/conv_describe_onednn.hpp"
#include "kernels/lane_transpose.hpp"
#include "kernels/launch.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow::onednn {

/// Pairs of neighbours: of the lanes of the first register, then of those of the second.
inline lanes::Pairs neighbours(const lanes::Floats& first, const lanes::Floats& second) {
  const lanes::HalfWords halves[2] = {lanes::round_to_bf16(first), lanes::round_to_bf16(second)};
  return {__builtin_bit_cast(lanes::Words, halves)};
}

/// Targets are the channels that fill the lanes, out_channels of a forward pass; sources those summed over.
class PointPacking {
 public:
  /// Nothing where the format is another one.
  static std::optional<PointPacking> of(const ConvDesc& desc, Pass pass, const memory::desc& format) {
    using Numbers = std::vector<memory::dim>;
    constexpr Extent kOne{1, 1, 1};
    if (desc.geometry.kernel != kOne || desc.geometry.groups != 1) return std::nullopt;
    const Numbers blocks = format.get_inner_blks(), dimensions = format.get_inner_idxs(),
                  strides = format.get_strides();
    PointPacking packing;
    packing.bf16_ = desc.type == DType::kBf16;
    packing.forward_ = pass == Pass::kForward;
    const memory::dim target = packing.forward_ ? 0 : 1, source = 1 - target, held = packing.bf16_ ? 2 : 1;
    const bool known =
        packing.bf16_ ? blocks.size() == 2 && blocks[1] == held && dimensions[1] == source : blocks.size() == 1;
    if (!known || dimensions[0] != target || blocks[0] % lanes::kLanes != 0 || format.get_submemory_offset() != 0)
      return std::nullopt;
    packing.block_ = blocks[0];
    packing.targets_ = packing.forward_ ? desc.out_channels : desc.in_channels;
    packing.sources_ = packing.forward_ ? desc.in_channels : desc.out_channels;
    const std::int64_t numbers = ceil_div(packing.sources_, held);
    if (strides[static_cast<std::size_t>(source)] != packing.block_ * held ||
        strides[static_cast<std::size_t>(target)] != packing.block_ * held * numbers)
      return std::nullopt;
    return packing;
  }

  void operator()(const Context& context, const float* weights, std::byte* packed) const {
    bf16_ ? pack<Bf16>(context, weights, packed) : pack<float>(context, weights, packed);
  }

 private:
  template <class T>
  void pack(const Context& context, const float* weights, std::byte* packed) const {
    using lanes::Floats;
    using lanes::kLanes;
    constexpr int kHeld = lanes::kHeld<T>;
    using Number = lanes::Number<T>;
    auto* const to = reinterpret_cast<Number*>(packed);
    const std::int64_t numbers = ceil_div(sources_, kHeld), registers = ceil_div(targets_, block_) * block_ / kLanes;
    // The numbers of some targets, whose padding is zeros.
    const auto store = [=, this](std::int64_t number, std::int64_t target, const Floats& values) {
      std::memcpy(to + (target / block_ * numbers + number) * block_ + target % block_, &values, sizeof values);
    };
    const auto count = [](std::int64_t from, std::int64_t all) {
      return static_cast<int>(std::clamp<std::int64_t>(all - from, 0, kLanes));
    };
    const std::string& label = "petaflow::conv::pack[onednn]"_label;
    if (!forward_) {  // a number's sources are rows of targets
      launch(context, label, numbers, [=, this](std::int64_t number) {
        const float* const row = weights + number * kHeld * targets_;
        const bool whole = (number + 1) * kHeld <= sources_;
        for (std::int64_t target = 0; target < registers * kLanes; target += kLanes) {
          Floats first, second{};
          lanes::load_part(row + target, count(target, targets_), first);
          if (kHeld > 1 && whole) lanes::load_part(row + targets_ + target, count(target, targets_), second);
          store(number, target, kHeld == 1 ? first : __builtin_bit_cast(Floats, lanes::pair(first, second)));
        }
      });
      return;
    }
    const std::int64_t pieces = ceil_div(sources_, kHeld * kLanes);
    launch(context, label, registers * pieces, [=, this](std::int64_t item) {
      const std::int64_t target = item / pieces * kLanes, number = item % pieces * kLanes;
      Floats square[kLanes] = {};  // numbers of bf16 are moved as they are
      for (int lane = 0; lane < count(target, targets_); ++lane) {
        Floats row[kHeld];
        for (int half = 0; half < kHeld; ++half) {
          const std::int64_t source = number * kHeld + half * kLanes;
          lanes::load_part(weights + (target + lane) * sources_ + source, count(source, sources_), row[half]);
        }
        square[lane] = kHeld == 1 ? row[0] : __builtin_bit_cast(Floats, neighbours(row[0], row[kHeld - 1]));
      }
      lanes::transpose(square);
      for (int i = 0; i < count(number, numbers); ++i) store(number + i, target, square[i]);
    });
  }

  bool bf16_ = false, forward_ = true;
  std::int64_t block_ = 1, targets_ = 1, sources_ = 1;
};

}  // namespace petaflow::onednn
