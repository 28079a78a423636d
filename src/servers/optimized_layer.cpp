#include "servers/optimized_layer.hpp"

#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/error.hpp"
#include "kernels/launch.hpp"
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

/// Each server has its own layers in view, and gradients of several groups to take.
OptimizerOptions closed(OptimizerOptions options) {
  options.closed_loop = true;
  return options;
}

class OptimizedLayer final : public LayerStore {
 public:
  OptimizedLayer(const OptimizerOptions& options, const std::vector<Parameter>& parameters, int groups)
      : elements_(parameters.back().offset + parameters.back().spec.elements()),
        optimizer_(closed(options), parameters),
        past_versions_(optimizer_.follows() ? 3 * groups + 2 : 0),  // 5 % of gradients are older
        weights_("petaflow::server::weights", static_cast<std::size_t>(elements_)),
        gradient_("petaflow::server::gradient", kOnHost ? 0 : static_cast<std::size_t>(elements_)),
        past_("petaflow::server::past", static_cast<std::size_t>(past_versions_ * elements_)),
        step_("petaflow::server::step") {
    context_.step = step_.data();
  }

  std::int64_t elements() const override { return elements_; }

  // Adam counts the pushes of a layer, as every layer's solver did in the work cited in protocol.hpp.
  void update(std::int64_t version, std::int64_t seen, float learning_rate, float* gradient) override {
    StepState state;
    state.step = version;
    state.learning_rate = learning_rate;
    Kokkos::deep_copy(step_, Kokkos::View<const StepState, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(&state));
    if constexpr (!kOnHost) {
      copy_in(gradient, gradient_.data());
      gradient = gradient_.data();
    }
    optimizer_.step(context_, 0, elements_, gradient, weights_.data());
    remember(version + 1);
    follow(version + 1, seen, gradient);
    context_.space.fence();
  }
  void set_momentum(double momentum) override { optimizer_.set_momentum(momentum); }
  void settled(std::int64_t version) override {
    settled_ = version;
    remember(version);
  }
  void read_weights(float* values) const override { copy_out(weights_.data(), values); }
  void set_weights(const float* values) override { copy_in(values, weights_.data()); }
  void read_state(std::int32_t state, float* values) const override { copy_out(state_at(state), values); }
  void set_state(std::int32_t state, const float* values) override { copy_in(values, state_at(state)); }
  void read_tuner(std::span<float> numbers) const override {
    copy_out(tuner(numbers.size()), numbers.data(), numbers.size());
  }
  void set_tuner(std::span<const float> numbers) override {
    copy_in(numbers.data(), tuner(numbers.size()), numbers.size());
  }

 private:
  /// Weights after so many updates, where that is one of the last past_versions_.
  float* past(std::int64_t version) const { return past_.data() + version % past_versions_ * elements_; }
  void remember(std::int64_t version) {
    if (past_versions_ > 0) copy(context_, weights_.data(), past(version), elements_);
  }
  /// @param gradient  of version `seen`
  void follow(std::int64_t version, std::int64_t seen, const float* gradient) {
    if (past_versions_ == 0 || seen <= settled_ || seen - 1 <= version - past_versions_) return;
    optimizer_.follow(context_, gradient, past(seen - 1), past(seen), past(seen + 1));
  }

  float* state_at(std::int32_t state) const { return optimizer_.states().at(static_cast<std::size_t>(state)).values; }
  /// @param numbers  that a worker thinks it has
  float* tuner(std::size_t numbers) const {
    const std::span<float> all = optimizer_.tuner_numbers();
    PETAFLOW_REQUIRE(all.size() == numbers, "{} numbers of a tuner that has {}", numbers, all.size());
    return all.data();
  }
  void copy_in(const float* from, float* to) const { copy_in(from, to, static_cast<std::size_t>(elements_)); }
  void copy_out(const float* from, float* to) const { copy_out(from, to, static_cast<std::size_t>(elements_)); }
  static void copy_in(const float* from, float* to, std::size_t size) {
    Kokkos::deep_copy(Device(to, size), ConstHost(from, size));
  }
  static void copy_out(const float* from, float* to, std::size_t size) {
    Kokkos::deep_copy(Host(to, size), Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>(from, size));
  }

  std::int64_t elements_;
  Context context_;
  Optimizer optimizer_;
  std::int64_t past_versions_;                                   // kept; 0: the optimizer does not look back
  std::int64_t settled_ = 0;                                     // the version of which all groups got the weights last
  Kokkos::View<float*, MemorySpace> weights_, gradient_, past_;  // gradient_: none where messages are in MemorySpace
  Kokkos::View<StepState, MemorySpace> step_;
};

}  // namespace

MakeLayerStore optimized_layers(const OptimizerOptions& options, int groups) {
  return [options, groups](std::span<const ServedParameter> described) -> std::unique_ptr<LayerStore> {
    return std::make_unique<OptimizedLayer>(options, parameters_of(described), groups);
  };
}

}  // namespace petaflow
