#include "servers/optimized_layer.hpp"

#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "update/optimizer.hpp"

namespace petaflow {
namespace {

using Host = Kokkos::View<float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
using ConstHost = Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
using Device = Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>;

/// Their offsets count from 0.
std::vector<Parameter> parameters_of(std::span<const ServedParameter> described) {
  std::vector<Parameter> parameters;
  std::int64_t offset = 0;
  for (const ServedParameter& from : described) {
    Parameter& parameter = parameters.emplace_back();
    parameter.spec.dims = {from.elements};
    parameter.spec.decays = from.decays != 0;
    parameter.spec.running_momentum = from.running_momentum;
    parameter.offset = offset;
    offset += parameter.spec.elements();
  }
  return parameters;
}

class OptimizedLayer final : public LayerStore {
 public:
  OptimizedLayer(const OptimizerOptions& options, const std::vector<Parameter>& parameters)
      : elements_(parameters.back().offset + parameters.back().spec.elements()),
        optimizer_(options, parameters),
        weights_("petaflow::server::weights", static_cast<std::size_t>(elements_)),
        gradient_("petaflow::server::gradient", kOnHost ? 0 : static_cast<std::size_t>(elements_)),
        step_("petaflow::server::step") {
    context_.step = step_.data();
  }

  std::int64_t elements() const override { return elements_; }

  // Adam counts the pushes of a layer, as every layer's solver did in the work cited in protocol.hpp.
  void update(std::int64_t version, float learning_rate, const float* gradient) override {
    StepState state;
    state.step = version;
    state.learning_rate = learning_rate;
    Kokkos::deep_copy(step_, Kokkos::View<const StepState, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(&state));
    if constexpr (!kOnHost) {
      copy_in(gradient, gradient_.data());
      gradient = gradient_.data();
    }
    optimizer_.step(context_, 0, elements_, gradient, weights_.data());
    context_.space.fence();
  }
  void read_weights(float* values) const override { copy_out(weights_.data(), values); }
  void set_weights(const float* values) override { copy_in(values, weights_.data()); }
  void read_state(std::int32_t state, float* values) const override { copy_out(state_at(state), values); }
  void set_state(std::int32_t state, const float* values) override { copy_in(values, state_at(state)); }

 private:
  float* state_at(std::int32_t state) const { return optimizer_.states().at(static_cast<std::size_t>(state)).values; }
  void copy_in(const float* from, float* to) const {
    const auto size = static_cast<std::size_t>(elements_);
    Kokkos::deep_copy(Device(to, size), ConstHost(from, size));
  }
  void copy_out(const float* from, float* to) const {
    const auto size = static_cast<std::size_t>(elements_);
    Kokkos::deep_copy(Host(to, size), Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>(from, size));
  }

  std::int64_t elements_;
  Context context_;
  Optimizer optimizer_;
  Kokkos::View<float*, MemorySpace> weights_, gradient_;  // gradient_: none where messages are in MemorySpace
  Kokkos::View<StepState, MemorySpace> step_;
};

}  // namespace

MakeLayerStore optimized_layers(const OptimizerOptions& options) {
  return [options](std::span<const ServedParameter> described) -> std::unique_ptr<LayerStore> {
    return std::make_unique<OptimizedLayer>(options, parameters_of(described));
  };
}

}  // namespace petaflow
