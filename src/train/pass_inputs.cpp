#include "train/pass_inputs.hpp"

#include <algorithm>
#include <utility>

namespace petaflow {

PassInputs::PassInputs(std::int64_t slots)
    : slots_(slots),
      state_("petaflow::step_state"),
      samples_("petaflow::samples", static_cast<std::size_t>(slots)),
      labels_("petaflow::labels", static_cast<std::size_t>(slots)),
      weights_("petaflow::weights", static_cast<std::size_t>(slots)),
      host_samples_(Kokkos::create_mirror_view(samples_)),
      host_labels_(Kokkos::create_mirror_view(labels_)),
      host_weights_(Kokkos::create_mirror_view(weights_)) {}

void PassInputs::load(const Batch& batch, std::int64_t first, const Tensor& images, StepState state) {
  PETAFLOW_REQUIRE(images.shape.n == slots_ && images.pixel_stride == images.shape.c, "{} slots, images {}", slots_,
                   to_string(images.shape));
  const auto available = static_cast<std::int64_t>(batch.indices.size());
  const std::int64_t count = std::clamp<std::int64_t>(available - first, 0, slots_);

  using Host = Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  using Device = Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>;
  const auto elements = static_cast<std::size_t>(images.shape.sample_size());
  const Device target(images.as<float>(), static_cast<std::size_t>(slots_) * elements);
  const std::size_t filled = static_cast<std::size_t>(count) * elements;
  if (count > 0) {
    const Host source(batch.images + static_cast<std::size_t>(first) * elements, filled);
    Kokkos::deep_copy(Kokkos::subview(target, std::pair<std::size_t, std::size_t>(0, filled)), source);
  }
  if (count < slots_) {
    Kokkos::deep_copy(Kokkos::subview(target, std::pair<std::size_t, std::size_t>(filled, target.extent(0))), 0.0F);
  }

  for (std::int64_t slot = 0; slot < slots_; ++slot) {
    const auto from = static_cast<std::size_t>(first + slot), to = static_cast<std::size_t>(slot);
    const bool real = slot < count, labelled = real && batch.labels[from] >= 0;
    host_samples_(to) = real ? batch.indices[from] : -1;
    host_labels_(to) = labelled ? batch.labels[from] : 0;
    host_weights_(to) = labelled ? batch.weights[from] : 0;
  }
  Kokkos::deep_copy(samples_, host_samples_);
  Kokkos::deep_copy(labels_, host_labels_);
  Kokkos::deep_copy(weights_, host_weights_);
  state.sample = samples_.data();
  state.label = labels_.data();
  state.weight = weights_.data();
  const Kokkos::View<const StepState, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host_state(&state);
  Kokkos::deep_copy(state_, host_state);
}

}  // namespace petaflow
