// Runs of kRun pixels are items, in f32 with the largest logit subtracted; their losses are added in f64, in order.
#include "kernels/pixel_softmax_xent.hpp"

#include <type_traits>

#include "kernels/launch.hpp"

namespace petaflow {
namespace {

// On the host enough for a launch to pay, few enough that the smallest maps (16 x 16) still give a run to several
// threads; threads of a GPU read side by side.
constexpr std::int64_t kRun = kOnHost ? 64 : 4;

std::int64_t runs_of_sample(const Shape& s) { return (s.pixels() + kRun - 1) / kRun; }

/// Sums that runs of pixels leave for their sample.
struct RunSums {
  float* loss;            // (N, runs)
  std::int32_t* counted;  // (N, runs) pixels that count

  explicit RunSums(const PixelSoftmax& args)
      : loss(reinterpret_cast<float*>(args.scratch)),
        counted(reinterpret_cast<std::int32_t*>(loss + args.logits.shape.n * runs_of_sample(args.logits.shape))) {}
};

/// Pixels [begin, end) of all samples, one after the other.
struct Run {
  std::int64_t sample, begin, end;

  KOKKOS_INLINE_FUNCTION Run(std::int64_t item, std::int64_t runs, std::int64_t pixels) : sample(item / runs) {
    const std::int64_t first = item % runs * kRun, last = first + kRun < pixels ? first + kRun : pixels;
    begin = sample * pixels + first;
    end = sample * pixels + last;
  }
};

struct CountOfRun {
  std::int64_t runs, pixels;
  const std::uint8_t* map;
  int ignored;
  std::int32_t* counted;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const Run run(item, runs, pixels);
    std::int32_t count = 0;
    for (std::int64_t p = run.begin; p < run.end; ++p) count += map[p] != ignored ? 1 : 0;
    counted[item] = count;
  }
};

/// counted[n, 0] = those of the sample.
struct CountOfSample {
  std::int64_t runs;
  std::int32_t* counted;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const std::int64_t n = team.league_rank();
    std::int32_t count = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, runs),
        [&](std::int64_t run, std::int32_t& sum) { sum += counted[n * runs + run]; }, count);
    team.team_barrier();
    Kokkos::single(Kokkos::PerTeam(team), [&] { counted[n * runs] = count; });
  }
};

struct SoftmaxOfRun {
  std::int64_t runs, pixels, classes;
  const std::uint8_t* map;
  int ignored;
  float scale, focus;
  const StepState* step;
  const float* class_weights;
  const std::int32_t* counted;
  const float* logits;
  float *probabilities, *dlogits, *loss;

  // A pixel's loss l = -log p becomes q^focus l with q = 1 - p, and its gradient q^focus (1 + focus p l / q) times what
  // it was.  Where q is small, l is the logarithm of 1 - q: that of p, which is rounded to 1, would be 0.
  KOKKOS_INLINE_FUNCTION void focus_on(float q, float& value, float& gradient_scale) const {
    if (q < 0.5F) value = -::log1pf(-q);
    const float factor = ::powf(q, focus);
    if (gradient_scale != 0) gradient_scale *= q > 0 ? factor * (1 + focus * (1 - q) * value / q) : factor;
    value *= factor;
  }

  // The loss of a pixel without weights.
  KOKKOS_INLINE_FUNCTION float pixel(std::int64_t p, int label, float gradient_scale) const {
    const float* x = logits + p * classes;
    float* const dx = dlogits != nullptr ? dlogits + p * classes : nullptr;
    float* const probability = probabilities != nullptr ? probabilities + p * classes : nullptr;
    float* const exponentials = dx != nullptr ? dx : probability;  // kept here until their sum is known
    float largest = x[0];
    for (std::int64_t c = 1; c < classes; ++c) largest = x[c] > largest ? x[c] : largest;
    float sum = 0, others = 0;  // others: of all classes but the pixel's
    for (std::int64_t c = 0; c < classes; ++c) {
      const float e = ::expf(x[c] - largest);
      sum += e;
      others += c == label ? 0.0F : e;
      if (exponentials != nullptr) exponentials[c] = e;
    }
    float value = label < classes ? largest - x[label] + ::logf(sum) : static_cast<float>(NAN);
    if (focus > 0 && label < classes) focus_on(others / sum, value, gradient_scale);
    for (std::int64_t c = 0; c < classes && exponentials != nullptr; ++c) {
      const float p_c = exponentials[c] / sum;
      if (probability != nullptr) probability[c] = p_c;
      if (dx != nullptr) dx[c] = gradient_scale == 0 ? 0.0F : gradient_scale * (p_c - (c == label ? 1.0F : 0.0F));
    }
    return value;
  }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const Run run(item, runs, pixels);
    const float weight = step->weight[run.sample];
    const float of_pixel = weight / static_cast<float>(counted[run.sample * runs]);
    float sum = 0;
    for (std::int64_t p = run.begin; p < run.end; ++p) {
      const int label = map[p];
      const bool counts = weight != 0 && label != ignored;
      const float class_weight = class_weights != nullptr && counts && label < classes ? class_weights[label] : 1.0F;
      const float pixel_loss = pixel(p, label, counts ? class_weight * of_pixel * step->loss_scale * scale : 0.0F);
      if (counts) sum += class_weight * pixel_loss;
    }
    loss[item] = sum;
  }
};

struct LossOfSample {
  std::int64_t runs;
  const StepState* step;
  const std::int32_t* counted;
  const float* of_run;
  float* loss;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const std::int64_t n = team.league_rank();
    const float weight = step->weight[n];
    const std::int32_t count = counted[n * runs];
    double all = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, runs),
        [&](std::int64_t run, double& sum) { sum += static_cast<double>(of_run[n * runs + run]); }, all);
    Kokkos::single(Kokkos::PerTeam(team),
                   [&] { loss[n] = weight == 0 || count == 0 ? 0.0F : weight * static_cast<float>(all / count); });
  }
};

}  // namespace

std::size_t pixel_softmax_scratch_bytes(const Shape& logits) {
  return static_cast<std::size_t>(logits.n * runs_of_sample(logits)) * (sizeof(float) + sizeof(std::int32_t));
}

void pixel_softmax_cross_entropy(const Context& context, const PixelSoftmax& args) {
  const Tensor &x = args.logits, &dx = args.dlogits;
  PETAFLOW_REQUIRE(args.map != nullptr && args.loss != nullptr && args.scratch != nullptr && context.step != nullptr,
                   "the map, the loss, its scratch and the state of the step are needed");
  PETAFLOW_REQUIRE(x.pixel_stride == x.shape.c && (dx.data == nullptr || dx.pixel_stride == x.shape.c),
                   "logits and their gradient must be dense");
  PETAFLOW_REQUIRE(dx.data == nullptr || dx.shape == x.shape, "gradient {} of logits {}", to_string(dx.shape),
                   to_string(x.shape));
  const std::int64_t pixels = x.shape.pixels(), runs = runs_of_sample(x.shape), items = x.shape.n * runs;
  const RunSums sums(args);
  constexpr int kTeam = std::is_same_v<ExecutionSpace, Kokkos::DefaultHostExecutionSpace> ? 1 : 512;
  launch(context, "petaflow::pixel_softmax_xent::count[kokkos]"_label, items,
         CountOfRun{runs, pixels, args.map, args.ignored, sums.counted});
  launch_teams(context, "petaflow::pixel_softmax_xent::count_samples[kokkos]"_label, x.shape.n, kTeam,
               CountOfSample{runs, sums.counted});
  launch(context, "petaflow::pixel_softmax_xent[kokkos]"_label, items,
         SoftmaxOfRun{runs, pixels, x.shape.c, args.map, args.ignored, args.scale, args.focus, context.step,
                      args.class_weights, sums.counted, x.as<float>(), args.probabilities,
                      dx.data != nullptr ? dx.as<float>() : nullptr, sums.loss});
  launch_teams(context, "petaflow::pixel_softmax_xent::sum[kokkos]"_label, x.shape.n, kTeam,
               LossOfSample{runs, context.step, sums.counted, sums.loss, args.loss});
}

}  // namespace petaflow
