#include "train/pass_inputs.hpp"

#include <algorithm>
#include <utility>

#include "kernels/launch.hpp"

namespace petaflow {

PassInputs::PassInputs(std::int64_t slots, std::int64_t targets)
    : slots_(slots),
      targets_(static_cast<std::size_t>(targets)),
      state_("petaflow::step_state"),
      samples_("petaflow::samples", static_cast<std::size_t>(slots)),
      labels_("petaflow::labels", static_cast<std::size_t>(slots)),
      weights_("petaflow::weights", static_cast<std::size_t>(slots)),
      target_values_("petaflow::targets", static_cast<std::size_t>(slots) * targets_),
      host_samples_(Kokkos::create_mirror_view(samples_)),
      host_labels_(Kokkos::create_mirror_view(labels_)),
      host_weights_(Kokkos::create_mirror_view(weights_)),
      host_targets_(Kokkos::create_mirror_view(target_values_)) {}

void PassInputs::load(const Context& context, const Batch& batch, std::int64_t first, const Tensor& input,
                      StepState state) {
  PETAFLOW_REQUIRE(input.shape.n == slots_ && input.pixel_stride == input.shape.c, "{} slots, input {}", slots_,
                   to_string(input.shape));
  const auto available = static_cast<std::int64_t>(batch.indices.size());
  const std::int64_t count = std::clamp<std::int64_t>(available - first, 0, slots_);
  PETAFLOW_REQUIRE(batch.targets.size() == static_cast<std::size_t>(available) * targets_, "{} targets for {} slots",
                   batch.targets.size(), available);

  using Host = Kokkos::View<const std::byte*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  using Device = Kokkos::View<std::byte*, MemorySpace, Kokkos::MemoryUnmanaged>;
  const std::size_t bytes = input.size_bytes() / static_cast<std::size_t>(slots_);  // of a sample
  const Device target(static_cast<std::byte*>(input.data), input.size_bytes());
  const std::size_t filled = static_cast<std::size_t>(count) * bytes;
  if (count > 0) {
    const std::byte* samples = batch.samples + static_cast<std::size_t>(first) * bytes;
    if constexpr (kOnHost) {
      copy(context, samples, target.data(), static_cast<std::int64_t>(filled));
    } else {
      Kokkos::deep_copy(Kokkos::subview(target, std::pair<std::size_t, std::size_t>(0, filled)), Host(samples, filled));
    }
  }
  if (count < slots_) {
    Kokkos::deep_copy(Kokkos::subview(target, std::pair<std::size_t, std::size_t>(filled, target.extent(0))),
                      std::byte{0});
  }

  for (std::int64_t slot = 0; slot < slots_; ++slot) {
    const auto from = static_cast<std::size_t>(first + slot), to = static_cast<std::size_t>(slot);
    const bool real = slot < count, labelled = real && batch.labels[from] >= 0;
    host_samples_(to) = real ? batch.indices[from] : -1;
    host_labels_(to) = labelled ? batch.labels[from] : 0;
    host_weights_(to) = labelled ? batch.weights[from] : 0;
    for (std::size_t t = 0; t < targets_; ++t) {
      host_targets_(to * targets_ + t) = real ? batch.targets[from * targets_ + t] : 0;
    }
  }
  Kokkos::deep_copy(samples_, host_samples_);
  Kokkos::deep_copy(labels_, host_labels_);
  Kokkos::deep_copy(weights_, host_weights_);
  Kokkos::deep_copy(target_values_, host_targets_);
  state.sample = samples_.data();
  state.label = labels_.data();
  state.weight = weights_.data();
  state.target = target_values_.data();
  const Kokkos::View<const StepState, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host_state(&state);
  Kokkos::deep_copy(state_, host_state);
}

}  // namespace petaflow
