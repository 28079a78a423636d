// Pooling layers: maximum, average, and the average over the whole map.
#pragma once

#include "base/error.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// Throws a user error where a maximum is over more pixels than its codes can tell apart.
inline void check_max(PoolKind kind, std::int64_t pixels) {
  if (kind == PoolKind::kMax && pixels > kLargestMaxWindow) {
    user_error("a maximum over {} pixels: at most {} are possible; pool in two layers, or take the average", pixels,
               kLargestMaxWindow);
  }
}

/// Maximum or average over windows: x (N, C, D, H, W) -> y (N, C, D', H', W'), D' = (D + 2 pad - window) / stride + 1.
/// Max pooling ignores padding; averages count it as zeros.
class Pool final : public Layer {
 public:
  explicit Pool(const PoolGeometry& geometry) : geometry_(geometry) {}

  /// Square windows in two dimensions whose stride is their size.
  static PoolGeometry square(PoolKind kind, std::int64_t window) {
    return {kind, {1, window, window}, {1, window, window}, {0, 0, 0}};
  }
  /// Cubic windows whose stride is their size.
  static PoolGeometry cube(PoolKind kind, std::int64_t window) {
    return {kind, {window, window, window}, {window, window, window}, {0, 0, 0}};
  }

  Shape output(const Shape& x) const override {
    const Extent out = geometry_.output(x.extent());
    const Extent& pad = geometry_.pad;
    const Extent& window = geometry_.window;
    if (out.volume() == 0)
      user_error("a pooling window of {} does not fit an input of {}", to_string(window), to_string(x));
    if (2 * pad.d > window.d || 2 * pad.h > window.h || 2 * pad.w > window.w) {
      user_error("the padding of a pooling window of {} must be at most half of it", to_string(window));
    }
    check_max(geometry_.kind, window.volume());
    return {x.n, x.c, out.d, out.h, out.w};
  }
  void lower(Lowering& ops) const override { ops.append(PoolOp{geometry_}); }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    const Shape& in = x[0].shape;
    const int axes = in.d > 1 || geometry_.window.d > 1 ? 3 : 2;
    const std::string value =
        fmt::format("F.{}_pool{}d({}, {}, {}, {})", geometry_.kind == PoolKind::kMax ? "max" : "avg", axes,
                    pytorch_with_axes(x[0].text, pytorch_axes(in), axes), pytorch_tuple(geometry_.window, axes),
                    pytorch_tuple(geometry_.stride, axes), pytorch_tuple(geometry_.pad, axes));
    return {"", pytorch_with_axes(value, axes, pytorch_axes(output(in)))};
  }

 private:
  PoolGeometry geometry_;
};

/// Maximum or average over the whole map: x (N, C, D, H, W) -> y (N, C, 1, 1, 1).
class GlobalPool final : public Layer {
 public:
  explicit GlobalPool(PoolKind kind) : kind_(kind) {}

  Shape output(const Shape& x) const override {
    check_max(kind_, x.pixels());
    return {x.n, x.c, 1, 1, 1};
  }
  void lower(Lowering& ops) const override {
    ops.append(PoolOp{{kind_, {0, 0, 0}, {1, 1, 1}, {0, 0, 0}}});  // a window of 0 is the whole map
  }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    const int axes = pytorch_axes(x[0].shape);
    if (axes == 0) return {"", x[0].text};
    return {"", fmt::format("{}.{}({})", x[0].text, kind_ == PoolKind::kMax ? "amax" : "mean",
                            axes == 3 ? "(2, 3, 4)" : "(2, 3)")};
  }

 private:
  PoolKind kind_;
};

}  // namespace petaflow
