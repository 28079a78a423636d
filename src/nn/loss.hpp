// Losses: what an output of the network has to come close to, its gradient, and the scores to evaluate by.
#pragma once

#include <cstddef>
#include <vector>

#include "base/context.hpp"
#include "base/target.hpp"
#include "base/tensor.hpp"
#include "kernels/detection_loss.hpp"
#include "kernels/regression_loss.hpp"
#include "kernels/square_loss.hpp"

namespace petaflow {

/// Operands of a loss; tensors are dense, all pointers in MemorySpace.
struct LossOperands {
  Tensor output;                 // (N, C, D, H, W), f32, read
  const void* target = nullptr;  // (N) of what it is compared with, as the TargetSpec says
  float weight = 1;              // of this loss among others, factor of doutput
  Tensor scores;                 // as output, written: what predictions are evaluated by; no data: not wanted
  Tensor doutput;  // as output, written: gradient of weight * loss_scale * sum_n weight_n loss_n; no data: not wanted
  float* losses = nullptr;       // (N) written: weight_n * loss_n, exactly 0 in padded slots
  std::byte* scratch = nullptr;  // scratch_bytes(output.shape), contents undefined
};

class Loss {
 public:
  virtual ~Loss() = default;
  /// The target beside an output of this shape, without a name; TargetSpec::none() where it reads none.  Throws a user
  /// error where there is no such loss.
  virtual TargetSpec target(const Shape& output) const = 0;
  virtual std::size_t scratch_bytes(const Shape& /*output*/) const { return 0; }
  /// Reads weight and loss_scale of the context's step state.
  virtual void run(const Context& context, const LossOperands& operands) const = 0;
};

/// Softmax cross-entropy over the channels of one pixel: loss_n = -log softmax(output_n)[class_n]; the scores are the
/// probabilities.
class SoftmaxLoss final : public Loss {
 public:
  TargetSpec target(const Shape& output) const override;
  void run(const Context& context, const LossOperands& operands) const override;
};

/// Mean over the outputs of |output - target| or (output - target)^2; the scores are the outputs.
class RegressionLoss final : public Loss {
 public:
  explicit RegressionLoss(RegressionError error) : error_(error) {}

  TargetSpec target(const Shape& output) const override;
  void run(const Context& context, const LossOperands& operands) const override;

 private:
  RegressionError error_;
};

/// Mean of the squares of an output that is itself an error, a difference that layers have made (kernels/
/// square_loss.hpp): of a map that an autoencoder gives and the one that it was given, say.  It reads no target; the
/// scores are the output.
class SquareLoss final : public Loss {
 public:
  TargetSpec target(const Shape& /*output*/) const override { return TargetSpec::none(); }
  std::size_t scratch_bytes(const Shape& output) const override { return square_loss_scratch_bytes(output); }
  void run(const Context& context, const LossOperands& operands) const override;
};

struct PixelSoftmaxOptions {
  std::vector<float> class_weights;  // one per class; empty: all 1
  int ignored = -1;                  // pixels of this class do not count; -1: all do
  float focus = 0;                   // gamma of a focal loss; 0: none
};

/// Softmax cross-entropy over the channels of every pixel: loss_n = mean over the pixels of sample n that count of
/// class_weights[class] (1 - p)^focus (-log p), p = softmax(output)[class], 0 where none counts; the scores are the
/// probabilities.
class PixelSoftmaxLoss final : public Loss {
 public:
  explicit PixelSoftmaxLoss(PixelSoftmaxOptions options = {});

  TargetSpec target(const Shape& output) const override;
  std::size_t scratch_bytes(const Shape& output) const override;
  void run(const Context& context, const LossOperands& operands) const override;

 private:
  PixelSoftmaxOptions options_;
  Kokkos::View<float*, MemorySpace> class_weights_;
};

struct DetectionOptions {
  float cell = 32;         // edge of a cell in pixels of the input
  std::int64_t boxes = 0;  // of a sample at most
  DetectionWeights weights = {};
};

/// Loss of boxes that the cells of a map predict (kernels/detection_loss.hpp): loss_n is the sum over the cells of
/// sample n, 0 where its boxes are not known (count -1); the scores are the output with probabilities instead of
/// logits.
class DetectionLoss final : public Loss {
 public:
  explicit DetectionLoss(const DetectionOptions& options);

  TargetSpec target(const Shape& output) const override;
  std::size_t scratch_bytes(const Shape& output) const override { return detection_scratch_bytes(output); }
  void run(const Context& context, const LossOperands& operands) const override;

 private:
  DetectionOptions options_;
};

}  // namespace petaflow
