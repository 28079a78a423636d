// Periodic padding of the width: what leaves an image on one side comes in on the other, as around a detector in phi.
#pragma once

#include <memory>

#include "base/error.hpp"
#include "kernels/launch.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// y[w] = x[(w - pad) mod W].  x (N, C, D, H, W) -> y (N, C, D, H, W + 2 pad).
class PeriodicPad final : public Layer {
 public:
  explicit PeriodicPad(std::int64_t pad) : pad_(pad) {}

  Shape output(const Shape& x) const override {
    if (pad_ < 0 || pad_ > x.w) user_error("a periodic padding of {} does not fit a width of {}", pad_, x.w);
    return {x.n, x.c, x.d, x.h, x.w + 2 * pad_};
  }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<PadStage>(pad_)}); }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    const int from = pytorch_axes(x[0].shape), axes = pytorch_axes(output(x[0].shape));
    return {"", fmt::format("F.pad({}, ({}, {}{}), mode=\"circular\")", pytorch_with_axes(x[0].text, from, axes), pad_,
                            pad_, axes == 3 ? ", 0, 0, 0, 0" : ", 0, 0")};
  }

  class PadStage final : public Stage {
   public:
    explicit PadStage(std::int64_t pad) : pad_(pad) {}

    void forward(const Context& context) override {
      const Shape s = buffers.x[0].shape;
      const auto* x = buffers.x[0].as<float>();
      auto* y = buffers.y[0].as<float>();
      const std::int64_t pad = pad_;
      launch(
          context, "petaflow::periodic_pad::forward[kokkos]"_label, s.n * s.d * s.h, KOKKOS_LAMBDA(std::int64_t row) {
            const float* from = x + row * s.w * s.c;
            float* to = y + row * (s.w + 2 * pad) * s.c;
            for (std::int64_t i = 0; i < pad * s.c; ++i) to[i] = from[(s.w - pad) * s.c + i];
            for (std::int64_t i = 0; i < s.w * s.c; ++i) to[pad * s.c + i] = from[i];
            for (std::int64_t i = 0; i < pad * s.c; ++i) to[(s.w + pad) * s.c + i] = from[i];
          });
    }

    void backward(const Context& context, float* /*gradient*/) override {
      if (buffers.dx[0].data == nullptr) return;
      const Shape s = buffers.x[0].shape;
      auto* dx = buffers.dx[0].as<float>();
      const auto* dy = buffers.dy[0].as<float>();
      const std::int64_t pad = pad_;
      launch(
          context, "petaflow::periodic_pad::backward[kokkos]"_label, s.n * s.d * s.h, KOKKOS_LAMBDA(std::int64_t row) {
            float* to = dx + row * s.w * s.c;
            const float* from = dy + row * (s.w + 2 * pad) * s.c;
            for (std::int64_t i = 0; i < s.w * s.c; ++i) to[i] = from[pad * s.c + i];
            for (std::int64_t i = 0; i < pad * s.c; ++i) to[(s.w - pad) * s.c + i] += from[i];
            for (std::int64_t i = 0; i < pad * s.c; ++i) to[i] += from[(s.w + pad) * s.c + i];
          });
    }

   private:
    std::int64_t pad_;
  };

 private:
  std::int64_t pad_;
};

}  // namespace petaflow
