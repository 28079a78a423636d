// YellowFin: finds learning rate and momentum from the gradients themselves.
//
// Zhang & Mitliagkas, "YellowFin and the Art of Momentum Tuning" (arXiv:1706.03471): algorithm 1 with the measurements
// of algorithms 2 to 4 (averages without the bias of their zero start; the range of curvatures averaged as logarithms),
// and the slow start of the authors' code; rate and momentum are not averaged themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/slice.hpp"
#include "kernels/optimizer_step.hpp"

namespace petaflow {

class YellowFin {
 public:
  /// Measurements are averages over 1 / (1 - kDecay) steps, curvatures the extremes of kWindow steps.
  static constexpr double kDecay = 0.999;
  static constexpr int kWindow = 20;
  /// Numbers that measuring goes on with.
  static constexpr int kNumbers = kWindow + 8;

  /// @param tensors  trained ones, their place in the flat arrays
  /// @param own      of these this rank averages gradients, in slices that begin at GradientFactors::cuts()
  /// @param closed   the loop is: the tuned momentum is what follow() aims at
  YellowFin(const std::vector<ParameterRange>& tensors, const std::vector<Slice>& own, float weight_decay, bool closed);

  /// Takes the gradient of all tensors, and tunes.  Reads learning_rate, a factor of the tuned rate, and step of
  /// *context.step.  Sums are in fixed parts: the same bits on any number of threads and ranks.
  /// @param gradient        flat, in MemorySpace
  /// @param clip            in MemorySpace: multiplies the gradient first; null: 1
  /// @param average         of the gradient, of own slices one after the other, in MemorySpace; updated
  /// @param sum_over_ranks  replaces the values, in host memory, by their sum; null: everything is this rank's own
  void tune(const Context& context, const float* gradient, const float* clip, float* average,
            const std::function<void(std::span<double>)>* sum_over_ranks);

  /// Closed loop, after tune(), where updates by gradients of older weights add a momentum of their own (section 4.1):
  /// the momentum of updates moves on by kGain x (tuned - total).  The total is the m of
  ///   after - at = m (at - before) - rate gradient,
  /// by least squares over elements and the last 1 / (1 - kFollowDecay) steps; the paper takes the median over the
  /// elements of one step, which noise of the gradient biases.
  /// All parts must be of this rank.
  /// @param gradient           of tune()
  /// @param before, at, after  weights of three versions, one after the other, the gradient being that of `at`
  void follow(const Context& context, const float* gradient, const float* clip, const float* before, const float* at,
              const float* after);
  // On noisy quadratics with curvatures from 0.4 to 0.8 and eight groups the total is at most 0.040 from the tuned
  // momentum in 48 runs (RMS 0.015), and 0.056 (0.022) by the paper's gain of 0.01 over 20 steps; with curvatures from
  // 1 to 10 it is up to 0.063 (0.068) away, as updates of weights of several ages are no plain momentum there.
  static constexpr double kGain = 0.03, kFollowDecay = 0.9;

  /// Learning rate and momentum, in MemorySpace, where the update kernels read them.
  const float* tuned() const { return tuned_.data(); }
  /// (kNumbers), in MemorySpace; 0 at the start.
  float* numbers() const { return numbers_.data(); }

  struct Part {
    std::int64_t begin = 0, end = 0;
    std::int64_t state = 0;   // as in ParameterRange
    std::int64_t number = 0;  // among those of all ranks
    float l2_decay = 0;
  };

 private:
  bool closed_;
  std::int64_t own_parts_ = 0;
  Kokkos::View<Part*, MemorySpace> parts_;             // own ones
  Kokkos::View<double*, MemorySpace> squares_;         // of the gradient and of its average in each part of all ranks
  Kokkos::View<float*, MemorySpace> numbers_, tuned_;  // tuned_: rate, momentum of updates, that of all together
};

}  // namespace petaflow
