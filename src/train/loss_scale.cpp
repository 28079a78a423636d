#include "train/loss_scale.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "kernels/launch.hpp"

namespace petaflow {
namespace {

struct Clear {
  std::int32_t* overflow;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t /*item*/) const { *overflow = 0; }
};

struct Divide {
  float factor;
  float* gradient;
  std::int32_t* overflow;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    constexpr std::uint32_t kExponent = 0x7F800000U;  // all of its bits: infinity or NaN
    if ((word_of(gradient[i]) & kExponent) == kExponent) Kokkos::atomic_exchange(overflow, 1);
    gradient[i] *= factor;
  }
};

bool adapts(const TrainOptions& options, DType precision) {
  return options.loss_scaling == LossScaling::kDynamic ||
         (options.loss_scaling == LossScaling::kAuto && precision == DType::kFp16);
}

}  // namespace

bool scales_losses(const TrainOptions& options, DType precision) {
  return options.loss_scaling == LossScaling::kStatic || adapts(options, precision);
}

LossScale::LossScale(const TrainOptions& options, DType precision)
    : scales_(scales_losses(options, precision)),
      adapts_(adapts(options, precision)),
      steps_(options.loss_scale_steps),
      overflow_("petaflow::loss_scale::overflow", 1) {
  if (scales_) state_.scale = options.loss_scale;
}

void LossScale::divide(const Context& context, std::span<const Slice> slices, double scale, float* gradient) {
  launch(context, "petaflow::loss_scale::clear[kokkos]"_label, 1, Clear{overflow_.device()});
  for (const Slice& slice : slices) {
    launch(context, "petaflow::loss_scale::divide[kokkos]"_label, slice.size(),
           Divide{static_cast<float>(1 / scale), gradient + slice.begin, overflow_.device()});
  }
  overflow_.download(context);
}

bool LossScale::use(std::int64_t step, double scale, bool finite) {
  if (finite) {
    if (adapts_ && scale == state_.scale && ++state_.steps >= steps_) {
      state_.scale = std::min(2 * state_.scale, kMost);
      state_.steps = 0;
    }
    return true;
  }
  if (!adapts_ || scale <= kLeast) {
    throw AgreedError(
        ErrorKind::kFailure,
        fmt::format("step {}: the gradient is not finite with losses multiplied by {}; {}a smaller optimizer.lr or a "
                    "warm-up (schedule.warmup_steps) may help",
                    step, scale, adapts_ ? "" : "set train.loss_scale lower or train.loss_scaling to \"dynamic\"; "));
  }
  state_.skipped += 1;
  if (scale / 2 < state_.scale) {
    state_.scale = std::max(scale / 2, kLeast);
    state_.steps = 0;
  }
  return false;
}

}  // namespace petaflow
