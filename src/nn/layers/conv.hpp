// Convolution layer.
#pragma once

#include "base/error.hpp"
#include "nn/initial.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

struct ConvOptions {
  std::int64_t filters = 1;
  Extent kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  Extent pad{0, 0, 0};  // zeros on both sides
  std::int64_t groups = 1;
  bool bias = true;
  float gain = 1;  // factor of the sums: y = gain (w * x) + bias
  Initial initial = {};

  /// A square window of odd size whose stride-1 output has the extent of its input.
  static ConvOptions same_2d(std::int64_t filters, std::int64_t kernel) {
    ConvOptions options;
    options.filters = filters;
    options.kernel = {1, kernel, kernel};
    options.pad = {0, kernel / 2, kernel / 2};
    return options;
  }

  /// A cubic window without padding.
  static ConvOptions valid_3d(std::int64_t filters, std::int64_t kernel, std::int64_t stride = 1) {
    ConvOptions options;
    options.filters = filters;
    options.kernel = {kernel, kernel, kernel};
    options.stride = {stride, stride, stride};
    return options;
  }

  /// A cubic window of odd size whose stride-1 output has the extent of its input.
  static ConvOptions same_3d(std::int64_t filters, std::int64_t kernel) {
    ConvOptions options = valid_3d(filters, kernel);
    options.pad = {kernel / 2, kernel / 2, kernel / 2};
    return options;
  }
};

/// Arguments of nn.Conv and nn.ConvTranspose behind the window.
inline std::string pytorch_arguments(const ConvOptions& options, int axes) {
  return pytorch_argument("stride", options.stride, {1, 1, 1}, axes) +
         pytorch_argument("padding", options.pad, {0, 0, 0}, axes) +
         pytorch_argument("dilation", options.dilation, {1, 1, 1}, axes) +
         (options.groups == 1 ? "" : fmt::format(", groups={}", options.groups)) + (options.bias ? "" : ", bias=False");
}

/// A value times the gain of a convolution that reads it.
inline std::string pytorch_scaled(const std::string& text, float gain) {
  return gain == 1 ? text : fmt::format("{} * {}", gain, text);
}

/// Cross-correlation.  x (N, C, D, H, W) -> y (N, filters, D', H', W'), D' = (D + 2 pad - dilation (kernel - 1) - 1) /
/// stride + 1. weight (filters, C / groups, [kd,] kh, kw); bias (filters).
class Conv final : public Layer {
 public:
  explicit Conv(const ConvOptions& options) : options_(options) {}

  Shape output(const Shape& x) const override {
    if (x.c % options_.groups != 0 || options_.filters % options_.groups != 0) {
      user_error("a convolution in {} groups needs channels and filters divisible by it, found {} and {}",
                 options_.groups, x.c, options_.filters);
    }
    const Extent out = window_output(x.extent(), geometry());
    if (out.volume() == 0) {
      user_error("a convolution window of {} does not fit an input of {}", to_string(options_.kernel), to_string(x));
    }
    return {x.n, options_.filters, out.d, out.h, out.w};
  }

  std::vector<ParamSpec> parameters(const Shape& x) const override {
    const std::int64_t depth = x.c / options_.groups, window = options_.kernel.volume();
    std::vector<std::int64_t> dims = {options_.filters, depth};
    if (x.d > 1 || options_.kernel.d > 1) dims.push_back(options_.kernel.d);
    dims.insert(dims.end(), {options_.kernel.h, options_.kernel.w});
    const Initial& initial = options_.initial;
    std::vector<ParamSpec> specs{initial.weight(dims, depth * window, options_.filters / options_.groups * window)};
    if (options_.bias) specs.push_back(initial.biases(options_.filters));
    return specs;
  }

  Cost cost(const Shape& x) const override {
    const Shape y = output(x);
    return {2.0 * static_cast<double>(y.elements()) *
            static_cast<double>(x.c / options_.groups * options_.kernel.volume())};
  }

  void lower(Lowering& ops) const override {
    ops.append(ConvOp{geometry(), options_.filters, ConvRole::kConvolution, options_.gain});
    if (options_.bias) ops.append(BiasOp{});
  }

  PytorchLayer pytorch(const std::string& self, std::span<const PytorchValue> x) const override {
    const Shape& in = x[0].shape;
    const int axes = in.d > 1 || options_.kernel.d > 1 ? 3 : 2;
    return {fmt::format("nn.Conv{}d({}, {}, {}{})", axes, in.c, options_.filters, pytorch_tuple(options_.kernel, axes),
                        pytorch_arguments(options_, axes)),
            pytorch_with_axes(
                fmt::format("{}({})", self,
                            pytorch_scaled(pytorch_with_axes(x[0].text, pytorch_axes(in), axes), options_.gain)),
                axes, pytorch_axes(output(in)))};
  }

 private:
  ConvGeometry geometry() const {
    return {options_.kernel, options_.stride, options_.dilation, options_.pad, options_.pad, options_.groups};
  }

  ConvOptions options_;
};

}  // namespace petaflow
