// The sum of two branches.
#pragma once

#include <memory>

#include "base/label.hpp"
#include "kernels/copy.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// y = a + b, of two values of the same shape: a residual connection (He et al. 2015, arXiv:1512.03385).
class Add final : public Layer {
 public:
  std::vector<Shape> outputs(std::span<const Shape> x) const override {
    if (x.size() != 2) user_error("adds two values, found {}", x.size());
    if (x[0] != x[1]) user_error("values of {} and {} cannot be added", to_string(x[0]), to_string(x[1]));
    return {x[0]};
  }
  void lower(Lowering& ops) const override { ops.append(AddOp{std::make_unique<AddStage>()}); }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    return {"", fmt::format("{} + {}", x[0].text, x[1].text)};
  }

  class AddStage final : public Stage {
   public:
    bool can_add(std::size_t /*input*/) const override { return true; }
    bool takes_slices() const override { return true; }
    void forward(const Context& context) override {
      copy_tensor(context, "petaflow::add::forward[kokkos]"_label, buffers.x[0], buffers.y[0], false);
      copy_tensor(context, "petaflow::add::forward[kokkos]"_label, buffers.x[1], buffers.y[0], true);
    }
    void backward(const Context& context, float* /*gradient*/) override {
      for (std::size_t i = 0; i < 2; ++i) {
        if (buffers.dx[i].data == nullptr) continue;
        copy_tensor(context, "petaflow::add::backward[kokkos]"_label, buffers.dy[0], buffers.dx[i], buffers.adds[i]);
      }
    }
  };
};

}  // namespace petaflow
