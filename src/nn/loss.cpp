#include "nn/loss.hpp"

#include "kernels/launch.hpp"
#include "kernels/pixel_softmax_xent.hpp"
#include "kernels/softmax_xent.hpp"

namespace petaflow {
namespace {

void require_one_pixel(const char* loss, const Shape& output) {
  if (output.pixels() != 1) {
    user_error("{} is for outputs of one pixel, found {}: end with a GlobalPool or a Dense layer", loss,
               sample_to_string(output));
  }
}

/// Scores that are the outputs themselves.
void copy_scores(const Context& context, const Tensor& output, const Tensor& scores) {
  if (scores.data == nullptr) return;
  PETAFLOW_REQUIRE(scores.shape == output.shape && scores.pixel_stride == output.pixel_stride,
                   "scores {} of outputs {}", to_string(scores.shape), to_string(output.shape));
  copy(context, output.as<float>(), scores.as<float>(), output.shape.elements());
}

}  // namespace

TargetSpec SoftmaxLoss::target(const Shape& output) const {
  require_one_pixel("the loss of one class per sample", output);
  return TargetSpec::label("", output.c);
}

void SoftmaxLoss::run(const Context& context, const LossOperands& operands) const {
  SoftmaxCrossEntropy args;
  args.logits = operands.output;
  args.labels = static_cast<const std::int32_t*>(operands.target);
  args.scale = operands.weight;
  args.probabilities = operands.scores.data != nullptr ? operands.scores.as<float>() : nullptr;
  args.loss = operands.losses;
  args.dlogits = operands.doutput;
  softmax_cross_entropy(context, args);
  const StepState* step = context.step;
  float* losses = operands.losses;
  launch(
      context, "petaflow::loss::weigh"_label, operands.output.shape.n,
      KOKKOS_LAMBDA(std::int64_t n) { losses[n] *= step->weight[n]; });
}

TargetSpec RegressionLoss::target(const Shape& output) const {
  require_one_pixel("the loss of numbers", output);
  return TargetSpec::numbers("", output.c);
}

void RegressionLoss::run(const Context& context, const LossOperands& operands) const {
  const auto& [output, target, weight, scores, doutput, losses, scratch] = operands;
  regression_loss(context, error_, {output, static_cast<const float*>(target), weight, losses, doutput});
  copy_scores(context, output, scores);
}

void SquareLoss::run(const Context& context, const LossOperands& operands) const {
  square_loss(context, {operands.output, operands.weight, operands.losses, operands.doutput, operands.scratch});
  copy_scores(context, operands.output, operands.scores);
}

PixelSoftmaxLoss::PixelSoftmaxLoss(PixelSoftmaxOptions options)
    : options_(std::move(options)), class_weights_("petaflow::class_weights", options_.class_weights.size()) {
  if (!(options_.focus >= 0)) user_error("the focus of a loss must not be negative, found {}", options_.focus);
  const Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(options_.class_weights.data(),
                                                                                    options_.class_weights.size());
  Kokkos::deep_copy(class_weights_, host);
}

TargetSpec PixelSoftmaxLoss::target(const Shape& output) const {
  constexpr std::int64_t kMost = 256;  // of a map of bytes
  if (output.c > kMost) user_error("a map of {} classes; at most {} are possible", output.c, kMost);
  if (const auto weights = std::ssize(options_.class_weights); weights != 0 && weights != output.c) {
    user_error("{} class weights for an output of {} classes", weights, output.c);
  }
  return TargetSpec::class_map("", output.c, output.extent());
}

std::size_t PixelSoftmaxLoss::scratch_bytes(const Shape& output) const { return pixel_softmax_scratch_bytes(output); }

void PixelSoftmaxLoss::run(const Context& context, const LossOperands& operands) const {
  PixelSoftmax args;
  args.logits = operands.output;
  args.map = static_cast<const std::uint8_t*>(operands.target);
  args.scale = operands.weight;
  args.class_weights = options_.class_weights.empty() ? nullptr : class_weights_.data();
  args.ignored = options_.ignored;
  args.focus = options_.focus;
  args.probabilities = operands.scores.data != nullptr ? operands.scores.as<float>() : nullptr;
  args.loss = operands.losses;
  args.dlogits = operands.doutput;
  args.scratch = operands.scratch;
  pixel_softmax_cross_entropy(context, args);
}

DetectionLoss::DetectionLoss(const DetectionOptions& options) : options_(options) {
  if (!(options.cell > 0)) user_error("cells of a detection must have an edge above 0 pixels, found {}", options.cell);
  if (options.boxes < 1) user_error("a detection needs room for a box or more, found {}", options.boxes);
}

TargetSpec DetectionLoss::target(const Shape& output) const {
  if (output.d != 1 || output.c <= kCellKinds) {
    user_error("a detection needs a map with {} channels, and one for each kind of box, found {}",
               static_cast<int>(kCellKinds), sample_to_string(output));
  }
  return TargetSpec::boxes("", options_.boxes, kBoxFields);
}

void DetectionLoss::run(const Context& context, const LossOperands& operands) const {
  Detection args;
  args.cells = operands.output;
  args.boxes = operands.target;
  args.most = options_.boxes;
  args.cell = options_.cell;
  args.weights = options_.weights;
  args.scale = operands.weight;
  args.scores = operands.scores.data != nullptr ? operands.scores.as<float>() : nullptr;
  args.loss = operands.losses;
  args.dcells = operands.doutput;
  args.scratch = operands.scratch;
  detection_loss(context, args);
}

}  // namespace petaflow
