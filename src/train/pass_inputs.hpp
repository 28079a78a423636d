// What a pass through the network reads besides the weights: samples, and the step state with labels or targets,
// weights, indices.
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/tensor.hpp"
#include "data/loader.hpp"

namespace petaflow {

class PassInputs {
 public:
  /// @param slots   of a pass
  /// @param targets of a sample
  PassInputs(std::int64_t slots, std::int64_t targets);

  /// Copies slots [first, first + slots) of the batch, as far as it has them, to the memory of the execution space;
  /// slots without a sample are zeros of index -1, label 0, weight 0.  A sample without a label (-1) gets weight 0.
  /// @param input  (slots, C, D, H, W), dense, of the type of the samples, written
  /// @param state  of the step; its pointers are set here
  void load(const Context& context, const Batch& batch, std::int64_t first, const Tensor& input, StepState state);

  /// In MemorySpace, valid as long as this object.
  const StepState* state() const { return state_.data(); }

 private:
  std::int64_t slots_;
  std::size_t targets_;
  Kokkos::View<StepState, MemorySpace> state_;
  Kokkos::View<std::int64_t*, MemorySpace> samples_;
  Kokkos::View<std::int32_t*, MemorySpace> labels_;
  Kokkos::View<float*, MemorySpace> weights_, target_values_;
  decltype(samples_)::HostMirror host_samples_;
  decltype(labels_)::HostMirror host_labels_;
  decltype(weights_)::HostMirror host_weights_, host_targets_;
};

}  // namespace petaflow
