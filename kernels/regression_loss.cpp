// One item per sample, in f32.
#include "kernels/regression_loss.hpp"

#include "kernels/launch.hpp"

namespace petaflow {
namespace {

struct ErrorOfSample {
  std::int64_t channels, outputs_step, doutputs_step;
  const float* targets;
  float loss_weight;
  bool squared;
  const StepState* step;
  const float* outputs;
  float* doutputs;
  float* loss;

  // Difference of a slot that is not padding.
  KOKKOS_INLINE_FUNCTION float difference(std::int64_t n, std::int64_t c) const {
    return outputs[n * outputs_step + c] - targets[n * channels + c];
  }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t n) const {
    const float weight = step->weight[n];
    const bool padding = weight == 0;
    float sum = 0;
    for (std::int64_t c = 0; c < channels && !padding; ++c) {
      const float d = difference(n, c);
      sum += squared ? d * d : ::fabsf(d);
    }
    loss[n] = weight * sum / static_cast<float>(channels);
    const float scale = weight * step->loss_scale * loss_weight / static_cast<float>(channels);
    for (std::int64_t c = 0; c < channels && doutputs != nullptr; ++c) {
      const float d = padding ? 0.0F : difference(n, c);
      const float sign = d > 0 ? 1.0F : d < 0 ? -1.0F : d;  // NaN stays
      doutputs[n * doutputs_step + c] = scale * (squared ? 2 * d : sign);
    }
  }
};

}  // namespace

void regression_loss(const Context& context, RegressionError error, const RegressionLossArgs& args) {
  const Tensor& x = args.outputs;
  PETAFLOW_REQUIRE(x.shape.pixels() == 1, "outputs are (N, C), not {}", to_string(x.shape));
  PETAFLOW_REQUIRE(args.targets != nullptr && args.loss != nullptr && context.step != nullptr,
                   "targets, the loss and the state of the step are needed");
  float* doutputs = nullptr;
  if (args.doutputs.data != nullptr) {
    PETAFLOW_REQUIRE(args.doutputs.shape == x.shape, "gradient {} of outputs {}", to_string(args.doutputs.shape),
                     to_string(x.shape));
    doutputs = args.doutputs.as<float>();
  }
  launch(context, "petaflow::regression_loss[kokkos]"_label, x.shape.n,
         ErrorOfSample{x.shape.c, x.pixel_stride, args.doutputs.pixel_stride, args.targets, args.scale,
                       error == RegressionError::kSquared, context.step, x.as<float>(), doutputs, args.loss});
}

}  // namespace petaflow
