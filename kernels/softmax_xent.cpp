// Softmax cross-entropy: one item per sample, in f32 with the largest logit subtracted.
#include "kernels/softmax_xent.hpp"

#include "base/element.hpp"
#include "base/error.hpp"
#include "kernels/launch.hpp"

namespace petaflow {
namespace {

template <class T>
struct SoftmaxOfSample {
  std::int64_t classes, logits_step, dlogits_step;
  const std::int32_t* labels;
  float scale;
  const StepState* step;
  const T* logits;
  T* dlogits;
  float* probabilities;
  float* loss;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t n) const {
    const T* x = logits + n * logits_step;
    float largest = static_cast<float>(x[0]);
    for (std::int64_t c = 1; c < classes; ++c) {
      const float value = static_cast<float>(x[c]);
      largest = value > largest ? value : largest;
    }
    float sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += ::expf(static_cast<float>(x[c]) - largest);
    const std::int32_t label = labels[n];
    const float weight = step->weight[n];
    const bool padding = label < 0 || weight == 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      const float p = ::expf(static_cast<float>(x[c]) - largest) / sum;
      if (probabilities != nullptr) probabilities[n * classes + c] = p;
      if (dlogits != nullptr) {
        const float gradient = (p - (c == label ? 1.0F : 0.0F)) * weight * step->loss_scale * scale;
        dlogits[n * dlogits_step + c] = static_cast<T>(padding ? 0.0F : gradient);
      }
    }
    loss[n] = padding           ? 0.0F
              : label < classes ? largest - static_cast<float>(x[label]) + ::logf(sum)
                                : static_cast<float>(NAN);
  }
};

template <class T>
void run(const Context& context, const SoftmaxCrossEntropy& args) {
  const Tensor& x = args.logits;
  launch(context, "petaflow::softmax_xent[kokkos]"_label, x.shape.n,
         SoftmaxOfSample<T>{x.shape.c, x.pixel_stride, args.dlogits.pixel_stride, args.labels, args.scale, context.step,
                            static_cast<const T*>(x.data), static_cast<T*>(args.dlogits.data), args.probabilities,
                            args.loss});
}

}  // namespace

void softmax_cross_entropy(const Context& context, const SoftmaxCrossEntropy& args) {
  PETAFLOW_REQUIRE(args.logits.shape.pixels() == 1, "logits are (N, C), not {}", to_string(args.logits.shape));
  PETAFLOW_REQUIRE(args.labels != nullptr && args.loss != nullptr && context.step != nullptr,
                   "labels, the loss and the state of the step are needed");
  if (args.dlogits.data != nullptr) {
    PETAFLOW_REQUIRE(args.dlogits.shape == args.logits.shape && args.dlogits.type == args.logits.type,
                     "gradient {} of logits {}", to_string(args.dlogits.shape), to_string(args.logits.shape));
  }
  with_element(args.logits.type, [&]<class T>(T) { run<T>(context, args); });
}

}  // namespace petaflow
