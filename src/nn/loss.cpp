#include "nn/loss.hpp"

#include "kernels/launch.hpp"
#include "kernels/softmax_xent.hpp"

namespace petaflow {

void SoftmaxLoss::run(const Context& context, const Tensor& output, const Tensor& scores, const Tensor& doutput,
                      float* losses) const {
  SoftmaxCrossEntropy args;
  args.logits = output;
  args.probabilities = scores.as<float>();
  args.loss = losses;
  args.dlogits = doutput;
  softmax_cross_entropy(context, args);
  const StepState* step = context.step;
  launch(
      context, "petaflow::loss::weigh"_label, output.shape.n,
      KOKKOS_LAMBDA(std::int64_t n) { losses[n] *= step->weight[n]; });
}

void RegressionLoss::run(const Context& context, const Tensor& output, const Tensor& scores, const Tensor& doutput,
                         float* losses) const {
  regression_loss(context, error_, {output, losses, doutput});
  PETAFLOW_REQUIRE(scores.shape == output.shape && scores.pixel_stride == output.pixel_stride,
                   "scores {} of outputs {}", to_string(scores.shape), to_string(output.shape));
  copy(context, output.as<float>(), scores.as<float>(), output.shape.elements());
}

}  // namespace petaflow
