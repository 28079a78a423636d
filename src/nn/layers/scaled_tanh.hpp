// The hyperbolic tangent for outputs that have bounds.
#pragma once

#include <memory>

#include "base/error.hpp"
#include "kernels/launch.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// y = scale tanh(x): a scale above 1 (1.2 in MLPerf HPC's CosmoFlow) lets outputs reach targets of -1 and 1 with a
/// slope.
class ScaledTanh final : public Layer {
 public:
  explicit ScaledTanh(float scale) : scale_(scale) {
    if (!(scale > 0)) user_error("the scale of a tanh must be above 0, found {}", scale);
  }

  Shape output(const Shape& x) const override { return x; }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<TanhStage>(scale_)}); }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    return {"", fmt::format("{} * torch.tanh({})", scale_, x[0].text)};
  }

  class TanhStage final : public Stage {
   public:
    explicit TanhStage(float scale) : scale_(scale) {}

    bool backward_needs_input(std::size_t /*input*/) const override { return true; }

    void forward(const Context& context) override {
      const auto* x = buffers.x[0].as<float>();
      auto* y = buffers.y[0].as<float>();
      const float scale = scale_;
      launch(
          context, "petaflow::scaled_tanh::forward[kokkos]"_label, buffers.x[0].shape.elements(),
          KOKKOS_LAMBDA(std::int64_t i) { y[i] = scale * ::tanhf(x[i]); });
    }

    void backward(const Context& context, float* /*gradient*/) override {
      if (buffers.dx[0].data == nullptr) return;
      const auto* x = buffers.x[0].as<float>();
      const auto* dy = buffers.dy[0].as<float>();
      auto* dx = buffers.dx[0].as<float>();
      const float scale = scale_;
      launch(
          context, "petaflow::scaled_tanh::backward[kokkos]"_label, buffers.x[0].shape.elements(),
          KOKKOS_LAMBDA(std::int64_t i) {
            const float t = ::tanhf(x[i]);
            dx[i] = scale * (1.0F - t * t) * dy[i];
          });
    }

   private:
    float scale_;
  };

 private:
  float scale_;
};

}  // namespace petaflow
