// Losses: the number that is minimised, its gradient with respect to the network's output, and the scores to judge by.
#pragma once

#include "base/context.hpp"
#include "base/tensor.hpp"
#include "kernels/regression_loss.hpp"

namespace petaflow {

class Loss {
 public:
  virtual ~Loss() = default;
  /// Numbers that are to be predicted for a sample (Dataset::targets()), with an output of this shape; 0: its class.
  virtual std::int64_t targets(const Shape& /*output*/) const { return 0; }
  /// Reads labels or targets, weights and loss_scale of the context's step state.
  /// @param output   (N, C) network output
  /// @param scores   (N, C) written: what predictions are judged by (probabilities, estimates)
  /// @param doutput  (N, C) written: gradient of loss_scale * sum_n weight_n loss_n; no data: not wanted
  /// @param losses   (N) written: weight_n * loss_n, exactly 0 in padded slots; in MemorySpace
  virtual void run(const Context& context, const Tensor& output, const Tensor& scores, const Tensor& doutput,
                   float* losses) const = 0;
};

/// Softmax cross-entropy over the channels of one pixel: loss_n = -log softmax(output_n)[label_n].
class SoftmaxLoss final : public Loss {
 public:
  void run(const Context& context, const Tensor& output, const Tensor& scores, const Tensor& doutput,
           float* losses) const override;
};

/// Mean over the outputs of |output - target| or (output - target)^2; the scores are the outputs.
class RegressionLoss final : public Loss {
 public:
  explicit RegressionLoss(RegressionError error) : error_(error) {}

  std::int64_t targets(const Shape& output) const override { return output.sample_size(); }
  void run(const Context& context, const Tensor& output, const Tensor& scores, const Tensor& doutput,
           float* losses) const override;

 private:
  RegressionError error_;
};

}  // namespace petaflow
