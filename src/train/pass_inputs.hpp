// What a pass through the network reads besides the weights: images, and the step state with labels, weights, indices.
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/tensor.hpp"
#include "data/loader.hpp"

namespace petaflow {

class PassInputs {
 public:
  /// @param slots of a pass
  explicit PassInputs(std::int64_t slots);

  /// Copies slots [first, first + slots) of the batch, as far as it has them, to the memory of the execution space;
  /// slots without a sample are zero images of index -1, label 0, weight 0.  A sample without a label (-1) gets weight
  /// 0.
  /// @param images (slots, C, D, H, W), dense f32, written
  /// @param state  of the step; its pointers are set here
  void load(const Batch& batch, std::int64_t first, const Tensor& images, StepState state);

  /// In MemorySpace, valid as long as this object.
  const StepState* state() const { return state_.data(); }

 private:
  std::int64_t slots_;
  Kokkos::View<StepState, MemorySpace> state_;
  Kokkos::View<std::int64_t*, MemorySpace> samples_;
  Kokkos::View<std::int32_t*, MemorySpace> labels_;
  Kokkos::View<float*, MemorySpace> weights_;
  decltype(samples_)::HostMirror host_samples_;
  decltype(labels_)::HostMirror host_labels_;
  decltype(weights_)::HostMirror host_weights_;
};

}  // namespace petaflow
