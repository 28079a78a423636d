// Runs of numbers are items, in f32; their sums are added in f64, in order.
#include "kernels/square_loss.hpp"

#include "kernels/launch.hpp"

namespace petaflow {
namespace {

constexpr std::int64_t kNumbersOfItem = 256;  // numbers of an item: threads of a device share lines of its cache

struct SquaresOfItem {
  std::int64_t runs, elements;  // of a sample
  float scale;
  const StepState* step;
  const float* x;
  float *dx, *sums;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t sample = item / runs, first = item % runs * kNumbersOfItem,
                       last = first + kNumbersOfItem < elements ? first + kNumbersOfItem : elements;
    const float weight = step->weight[sample];
    const bool padding = weight == 0;
    const float factor = 2 * weight * step->loss_scale * scale / static_cast<float>(elements);
    float sum = 0;
    for (std::int64_t i = sample * elements + first; i < sample * elements + last; ++i) {
      sum += padding ? 0.0F : x[i] * x[i];
      if (dx != nullptr) dx[i] = padding ? 0.0F : factor * x[i];
    }
    sums[item] = sum;
  }
};

struct MeanSquare {
  std::int64_t runs, elements;
  const StepState* step;
  const float* sums;
  float* loss;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t n) const {
    double sum = 0;
    for (std::int64_t run = n * runs; run < (n + 1) * runs; ++run) sum += static_cast<double>(sums[run]);
    loss[n] = step->weight[n] * static_cast<float>(sum / static_cast<double>(elements));
  }
};

std::int64_t items_of_sample(const Shape& x) { return (x.sample_size() + kNumbersOfItem - 1) / kNumbersOfItem; }

}  // namespace

std::size_t square_loss_scratch_bytes(const Shape& x) {
  return static_cast<std::size_t>(x.n * items_of_sample(x)) * sizeof(float);
}

void square_loss(const Context& context, const SquareLossArgs& args) {
  const Tensor &x = args.x, &dx = args.dx;
  PETAFLOW_REQUIRE(args.loss != nullptr && args.scratch != nullptr && context.step != nullptr,
                   "the loss, its scratch and the state of the step are needed");
  PETAFLOW_REQUIRE(x.pixel_stride == x.shape.c, "{} with a stride of {}", to_string(x.shape), x.pixel_stride);
  PETAFLOW_REQUIRE(dx.data == nullptr || (dx.shape == x.shape && dx.pixel_stride == x.shape.c), "gradient {} of {}",
                   to_string(dx.shape), to_string(x.shape));
  const std::int64_t runs = items_of_sample(x.shape), elements = x.shape.sample_size();
  auto* const sums = reinterpret_cast<float*>(args.scratch);
  launch(context, "petaflow::square_loss[kokkos]"_label, x.shape.n * runs,
         SquaresOfItem{runs, elements, args.scale, context.step, x.as<float>(),
                       dx.data != nullptr ? dx.as<float>() : nullptr, sums});
  launch(context, "petaflow::square_loss::mean[kokkos]"_label, x.shape.n,
         MeanSquare{runs, elements, context.step, sums, args.loss});
}

}  // namespace petaflow
