// Batch normalisation: each channel brought to mean 0 and variance 1 over a batch, then scaled and shifted.
// Source: Ioffe & Szegedy 2015 (arXiv:1502.03167); conventions of torch.nn.BatchNorm1d, 2d and 3d.
#pragma once

#include "base/error.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// y = weight (x - mean) / sqrt(variance + epsilon) + bias per channel: x (N, C, D, H, W) -> y likewise; without
/// `affine` the weight is 1 and the bias 0.
/// Evaluation uses running_mean and running_var, which has the unbiased variances of training.  Padded slots count for
/// nothing.  One pixel gives a variance of 0, and y = bias.
class BatchNorm final : public Layer {
 public:
  explicit BatchNorm(const BatchNormOptions& options = {}) : options_(options) {
    if (!(options.momentum > 0 && options.momentum <= 1)) {
      user_error("the momentum of a batch norm must lie above 0 and not above 1, found {}", options.momentum);
    }
    if (!(options.epsilon > 0)) user_error("epsilon of a batch norm must be positive, found {}", options.epsilon);
  }

  Shape output(const Shape& x) const override { return x; }
  std::vector<ParamSpec> parameters(const Shape& x) const override {
    ParamSpec weight{"weight", {x.c}}, bias{"bias", {x.c}}, mean{"running_mean", {x.c}}, variance{"running_var", {x.c}};
    weight.init_mean = variance.init_mean = 1;
    weight.role = ParamRole::kWeight, bias.role = ParamRole::kBias;
    mean.role = ParamRole::kRunningMean, variance.role = ParamRole::kRunningVariance;
    mean.running_momentum = variance.running_momentum = options_.momentum;
    for (ParamSpec* spec : {&weight, &bias, &mean, &variance}) spec->decays = false;
    if (!options_.affine) return {mean, variance};
    return {weight, bias, mean, variance};
  }
  void lower(Lowering& ops) const override { ops.append(BatchNormOp{options_}); }
  PytorchLayer pytorch(const std::string& self, std::span<const PytorchValue> x) const override {
    const int axes = pytorch_axes(x[0].shape);
    return {fmt::format("nn.BatchNorm{}d({}, eps={}, momentum={}{})", axes == 0 ? 1 : axes, x[0].shape.c,
                        options_.epsilon, options_.momentum, options_.affine ? "" : ", affine=False"),
            fmt::format("{}({})", self, x[0].text)};
  }

 private:
  BatchNormOptions options_;
};

}  // namespace petaflow
