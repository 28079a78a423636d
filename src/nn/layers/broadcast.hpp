// One pixel becomes a map: the way back from a global pooling.
#pragma once

#include <memory>

#include "base/element.hpp"
#include "base/label.hpp"
#include "kernels/launch.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// y = x at every pixel: x (N, C, 1, 1, 1) -> y (N, C, D, H, W).
class Broadcast final : public Layer {
 public:
  explicit Broadcast(const Extent& extent) : extent_(extent) {}

  Shape output(const Shape& x) const override {
    if (x.pixels() != 1) user_error("only one pixel can become a map, found {}", to_string(x));
    return {x.n, x.c, extent_.d, extent_.h, extent_.w};
  }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<BroadcastStage>()}); }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    const int axes = pytorch_axes({1, 1, extent_.d, extent_.h, extent_.w});
    if (axes == 0) return {"", x[0].text};
    return {"", fmt::format("{}.expand({})", pytorch_with_axes(x[0].text, 0, axes),
                            axes == 3 ? fmt::format("-1, -1, {}, {}, {}", extent_.d, extent_.h, extent_.w)
                                      : fmt::format("-1, -1, {}, {}", extent_.h, extent_.w))};
  }

  class BroadcastStage final : public Stage {
   public:
    bool takes_slices() const override { return true; }

    bool takes_any_precision() const override { return true; }

    void forward(const Context& context) override {
      with_element(buffers.x[0].type, [&]<class T>(T) { spread<T>(context); });
    }
    void backward(const Context& context, float* /*gradient*/) override {
      if (buffers.dx[0].data == nullptr) return;
      with_element(buffers.dx[0].type, [&]<class T>(T) { gather<T>(context); });
    }

    // Public: kernels of CUDA may not be in private functions.
    template <class T>
    void spread(const Context& context) const {
      const auto* x = buffers.x[0].as<T>();
      auto* y = buffers.y[0].as<T>();
      const std::int64_t pixels = buffers.y[0].shape.pixels(), channels = buffers.y[0].shape.c;
      const std::int64_t x_step = buffers.x[0].pixel_stride, y_step = buffers.y[0].pixel_stride;
      launch(
          context, "petaflow::broadcast::forward[kokkos]"_label, buffers.y[0].pixels(),
          KOKKOS_LAMBDA(std::int64_t pixel) {
            const T* from = x + pixel / pixels * x_step;
            for (std::int64_t c = 0; c < channels; ++c) y[pixel * y_step + c] = from[c];
          });
    }

    // Channel by channel, so that sums have one order on any number of threads.
    template <class T>
    void gather(const Context& context) const {
      auto* dx = buffers.dx[0].as<T>();
      const auto* dy = buffers.dy[0].as<T>();
      const std::int64_t pixels = buffers.dy[0].shape.pixels(), channels = buffers.dy[0].shape.c;
      const std::int64_t x_step = buffers.dx[0].pixel_stride, y_step = buffers.dy[0].pixel_stride;
      launch(
          context, "petaflow::broadcast::backward[kokkos]"_label, buffers.dx[0].shape.elements(),
          KOKKOS_LAMBDA(std::int64_t element) {
            const std::int64_t n = element / channels, c = element % channels;
            double sum = 0;
            for (std::int64_t p = 0; p < pixels; ++p)
              sum += static_cast<double>(static_cast<float>(dy[(n * pixels + p) * y_step + c]));
            dx[n * x_step + c] = static_cast<T>(static_cast<float>(sum));
          });
    }
  };

 private:
  Extent extent_;
};

}  // namespace petaflow
