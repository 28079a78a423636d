// Loss scaling: losses are multiplied, so that gradients too small for fp16 survive the backward pass, and the gradient
// is divided by the same number before it is used (Micikevicius et al., ICLR 2018, section 3.2).
#pragma once

#include <cstdint>
#include <span>

#include "base/context.hpp"
#include "base/dtype.hpp"
#include "base/slice.hpp"
#include "base/staged.hpp"
#include "train/options.hpp"

namespace petaflow {

/// What a checkpoint keeps of it.
struct LossScaleState {
  double scale = 1;          // of the next step's losses
  std::int64_t steps = 0;    // updates by finite gradients since it changed
  std::int64_t skipped = 0;  // steps of the run whose gradients were not finite
};

/// Whether losses are multiplied at all.
/// @param precision  of the network: "auto" scales for fp16 alone
bool scales_losses(const TrainOptions& options, DType precision);

/// The scale of a run: fixed, or one that finds itself: it is halved where a gradient is not finite, whose update is
/// skipped, and doubled after train.loss_scale_steps updates in a row.
class LossScale {
 public:
  /// Ends of a scale that finds itself.  Below 1 it would make gradients smaller than they are; the upper one, that of
  /// NVIDIA's Apex, keeps it from growing without bound where nothing overflows.
  static constexpr double kLeast = 1, kMost = 1 << 24;

  /// @param precision  as in scales_losses()
  LossScale(const TrainOptions& options, DType precision);

  bool scales() const { return scales_; }
  const LossScaleState& state() const { return state_; }
  /// Goes on from there; a fixed one stays that of the options.
  void restore(const LossScaleState& state) {
    if (adapts_) state_ = state;
  }

  /// gradient /= scale, for these slices.  Kernels and a copy on the context's space.
  /// @param gradient  flat, in MemorySpace
  void divide(const Context& context, std::span<const Slice> slices, double scale, float* gradient);
  /// Once the space is idle: whether all of the last divide() was finite.
  bool finite() const { return *overflow_.host() == 0; }
  /// Whether the gradient of a step is to be used: it is finite.  Moves the scale; with update.lag a gradient may be of
  /// a scale that is not the newest, and says of that one alone whether it is too large.  Throws an AgreedError, as all
  /// ranks do that have the same sum, where nothing can be halved.
  /// @param scale  that losses of the step were multiplied by
  bool use(std::int64_t step, double scale, bool finite);

 private:
  bool scales_, adapts_;
  std::int64_t steps_;
  LossScaleState state_;
  Staged<std::int32_t> overflow_;  // 1: something is not finite
};

}  // namespace petaflow
