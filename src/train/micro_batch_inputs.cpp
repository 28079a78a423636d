#include "train/micro_batch_inputs.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/launch.hpp"

namespace petaflow {
namespace {

using DeviceBytes = Kokkos::View<std::byte*, MemorySpace, Kokkos::MemoryUnmanaged>;
using HostBytes = Kokkos::View<const std::byte*, StagingSpace, Kokkos::MemoryUnmanaged>;

/// Pieces of bytes from host to host, by the threads: a loop over single bytes, which may be parts of anything, becomes
/// no instruction for many.
struct CopyPiece {
  static constexpr std::size_t kSize = 1 << 16;
  const std::byte* from;
  std::byte* to;
  std::size_t size;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t piece) const {
    const std::size_t begin = static_cast<std::size_t>(piece) * kSize;
    std::memcpy(to + begin, from + begin, size - begin < kSize ? size - begin : std::size_t{kSize});
  }
};

/// The first `filled` bytes of `to` = from; the others are zeros.
void fill(const Context& context, const std::byte* from, std::size_t filled, const DeviceBytes& to) {
  if (filled > 0) {
    if constexpr (kOnHost) {
      const std::size_t pieces = (filled + CopyPiece::kSize - 1) / CopyPiece::kSize;
      launch(context, "petaflow::input::copy[kokkos]"_label, static_cast<std::int64_t>(pieces),
             CopyPiece{from, to.data(), filled});
    } else {
      Kokkos::deep_copy(context.space, Kokkos::subview(to, std::pair<std::size_t, std::size_t>(0, filled)),
                        HostBytes(from, filled));
    }
  }
  if (filled < to.extent(0)) {
    Kokkos::deep_copy(context.space, Kokkos::subview(to, std::pair<std::size_t, std::size_t>(filled, to.extent(0))),
                      std::byte{0});
  }
}

}  // namespace

std::int64_t MicroBatchInputs::slots_of(const Batch& batch, std::int64_t first) const {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(batch.indices.size()) - first, 0, slots_);
}

MicroBatchInputs::MicroBatchInputs(std::int64_t slots, std::vector<TargetSpec> targets)
    : slots_(slots),
      specs_(std::move(targets)),
      state_("petaflow::step_state", 1),
      samples_("petaflow::samples", static_cast<std::size_t>(slots)),
      weights_("petaflow::weights", static_cast<std::size_t>(slots)) {
  for (const TargetSpec& spec : specs_) {
    targets_.emplace_back("petaflow::target", static_cast<std::size_t>(slots) * spec.bytes());
    target_pointers_.push_back(targets_.back().data());
  }
}

void MicroBatchInputs::load(const Context& context, const Batch& batch, std::int64_t first, const Tensor& input,
                            StepState state) {
  PETAFLOW_REQUIRE(input.shape.n == slots_ && input.pixel_stride == input.shape.c, "{} slots, input {}", slots_,
                   to_string(input.shape));
  const std::int64_t count = slots_of(batch, first);
  const auto load_slots = [&](const std::byte* slots, std::size_t bytes, const DeviceBytes& to) {
    fill(context, slots + static_cast<std::size_t>(first) * bytes, static_cast<std::size_t>(count) * bytes, to);
  };
  const DeviceBytes samples(static_cast<std::byte*>(input.data), input.size_bytes());
  if (ahead_ && first == 0 && batch.serial == ahead_->batch) {
    ahead_->side.hold_up(context);
    Kokkos::deep_copy(context.space, samples, ahead_->samples);
    ahead_->side.wait_for(context);  // until they may be written again
  } else {
    load_slots(batch.samples, input.size_bytes() / static_cast<std::size_t>(slots_), samples);
  }
  for (std::size_t t = 0; t < specs_.size(); ++t) {
    const auto from = std::ranges::find(batch.targets, specs_[t], &BatchTarget::spec);
    PETAFLOW_REQUIRE(from != batch.targets.end(), "no target {}, {}, in the batch", specs_[t].name,
                     describe(specs_[t]));
    load_slots(from->data, specs_[t].bytes(), targets_[t]);
  }
  for (std::int64_t slot = 0; slot < slots_; ++slot) {
    const auto from = static_cast<std::size_t>(first + slot), to = static_cast<std::size_t>(slot);
    samples_.host()[to] = slot < count ? batch.indices[from] : -1;
    weights_.host()[to] = slot < count ? batch.weights[from] : 0;
  }
  upload(context, state);
}

void MicroBatchInputs::load_ahead(const Context& context, const Batch* batch, const Tensor& input) {
  if (kOnHost) return;  // a copy more, and nothing that would run beside it
  if (!ahead_) {
    ahead_ = std::make_unique<Ahead>();
    ahead_->samples =
        Bytes(Kokkos::view_alloc("petaflow::samples_ahead", Kokkos::WithoutInitializing), input.size_bytes());
  }
  if (batch == nullptr) return;
  ahead_->batch = batch->serial;
  Context beside = context;
  beside.space = ahead_->side.space();
  fill(beside, batch->samples,
       static_cast<std::size_t>(slots_of(*batch, 0)) * input.size_bytes() / static_cast<std::size_t>(slots_),
       ahead_->samples);
}

void MicroBatchInputs::load_nothing(const Context& context) {
  for (std::int64_t slot = 0; slot < slots_; ++slot) {
    samples_.host()[slot] = -1;
    weights_.host()[slot] = 0;
  }
  upload(context, {});
}

void MicroBatchInputs::upload(const Context& context, StepState state) {
  samples_.upload(context);
  weights_.upload(context);
  state.sample = samples_.device();
  state.weight = weights_.device();
  *state_.host() = state;
  state_.upload(context);
}

}  // namespace petaflow
