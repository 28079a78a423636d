#include "nn/loss.hpp"

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
  Kokkos::parallel_for(
      "petaflow::loss::weigh", Kokkos::RangePolicy<ExecutionSpace>(context.space, 0, output.shape.n),
      KOKKOS_LAMBDA(std::int64_t n) { losses[n] *= step->weight[n]; });
}

}  // namespace petaflow
