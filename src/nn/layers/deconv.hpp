// Transposed convolution layer.
#pragma once

#include <algorithm>

#include "nn/layers/conv.hpp"

namespace petaflow {

struct DeconvOptions : ConvOptions {
  Extent output_padding{0, 0, 0};  // rows and columns of y more, at its end, each smaller than the stride
};

/// Transposed convolution, the gradient of the input of a convolution of the same options.  x (N, C, D, H, W) -> y (N,
/// filters, D', H', W'), D' = (D - 1) stride - 2 pad + dilation (kernel - 1) + output_padding + 1.
/// weight (C, filters / groups, [kd,] kh, kw); bias (filters): as torch.nn.ConvTranspose2d and 3d have them.
class Deconv final : public Layer {
 public:
  explicit Deconv(const DeconvOptions& options) : options_(options) {}

  Shape output(const Shape& x) const override {
    if (x.c % options_.groups != 0 || options_.filters % options_.groups != 0) {
      user_error("a transposed convolution in {} groups needs channels and filters divisible by it, found {} and {}",
                 options_.groups, x.c, options_.filters);
    }
    const Extent y{along(&Extent::d, x.d), along(&Extent::h, x.h), along(&Extent::w, x.w)};
    return {x.n, options_.filters, y.d, y.h, y.w};
  }

  std::vector<ParamSpec> parameters(const Shape& x) const override {
    const std::int64_t width = options_.filters / options_.groups, window = options_.kernel.volume();
    std::vector<std::int64_t> dims = {x.c, width};
    if (x.d > 1 || options_.kernel.d > 1) dims.push_back(options_.kernel.d);
    dims.insert(dims.end(), {options_.kernel.h, options_.kernel.w});
    // A pixel of y meets one tap in as many as the stride has pixels.
    const std::int64_t taps = std::max<std::int64_t>(1, window / options_.stride.volume());
    const Initial& initial = options_.initial;
    std::vector<ParamSpec> specs{initial.weight(dims, x.c / options_.groups * taps, width * window)};
    if (options_.bias) specs.push_back(initial.biases(options_.filters));
    return specs;
  }

  Cost cost(const Shape& x) const override {
    const std::int64_t width = options_.filters / options_.groups;
    return {2.0 * static_cast<double>(x.elements()) * static_cast<double>(width * options_.kernel.volume())};
  }

  void lower(Lowering& ops) const override {
    const ConvGeometry geometry{options_.kernel, options_.stride, options_.dilation,
                                options_.pad,    options_.pad,    options_.groups};
    ops.append(ConvOp{geometry, options_.filters, ConvRole::kTransposed, options_.gain});
    if (options_.bias) ops.append(BiasOp{});
  }

  PytorchLayer pytorch(const std::string& self, std::span<const PytorchValue> x) const override {
    const Shape& in = x[0].shape;
    const int axes = in.d > 1 || options_.kernel.d > 1 ? 3 : 2;
    return {fmt::format("nn.ConvTranspose{}d({}, {}, {}{}{})", axes, in.c, options_.filters,
                        pytorch_tuple(options_.kernel, axes),
                        pytorch_argument("output_padding", options_.output_padding, {0, 0, 0}, axes),
                        pytorch_arguments(options_, axes)),
            pytorch_with_axes(
                fmt::format("{}({})", self,
                            pytorch_scaled(pytorch_with_axes(x[0].text, pytorch_axes(in), axes), options_.gain)),
                axes, pytorch_axes(output(in)))};
  }

 private:
  /// The extent of y in a direction.
  std::int64_t along(std::int64_t Extent::* d, std::int64_t in) const {
    const std::int64_t stride = options_.stride.*d, more = options_.output_padding.*d;
    const std::int64_t out =
        (in - 1) * stride - 2 * options_.pad.*d + options_.dilation.*d * (options_.kernel.*d - 1) + more + 1;
    if (more < 0 || more >= stride)
      user_error("the output padding of a transposed convolution is smaller than its stride, found {} and {}", more,
                 stride);
    if (out < 1) user_error("a transposed convolution gives {} pixels of {}: its padding is too wide", out, in);
    return out;
  }

  DeconvOptions options_;
};

}  // namespace petaflow
