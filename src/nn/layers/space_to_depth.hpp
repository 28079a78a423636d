// Cubes of pixels become channels of one pixel: large inputs of few channels turn into small ones of many, which
// convolutions are faster on.
#pragma once

#include <memory>

#include "base/error.hpp"
#include "kernels/launch.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// x (N, C, D, H, W) -> y (N, b^3 C, D / b, H / b, W / b) with b = block.  The C channels of pixel (i, j, k) of a block
/// become those from ((i b + j) b + k) C on.
class SpaceToDepth final : public Layer {
 public:
  explicit SpaceToDepth(std::int64_t block) : block_(block) {
    if (block < 1) user_error("blocks of pixels must have an edge of at least 1, found {}", block);
  }

  Shape output(const Shape& x) const override {
    const std::int64_t b = block_;
    if (x.d % b != 0 || x.h % b != 0 || x.w % b != 0) {
      user_error("an input of {} cannot be cut into blocks of {}", to_string(x), to_string(Extent{b, b, b}));
    }
    return {x.n, b * b * b * x.c, x.d / b, x.h / b, x.w / b};
  }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<BlockStage>(block_)}); }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    const Shape &in = x[0].shape, out = output(in);
    const std::string value = fmt::format(
        "{}.reshape(-1, {}, {}, {b}, {}, {b}, {}, {b}).permute(0, 3, 5, 7, 1, 2, 4, 6).reshape(-1, {}, {}, {}, {})",
        x[0].text, in.c, out.d, out.h, out.w, out.c, out.d, out.h, out.w, fmt::arg("b", block_));
    return {"", pytorch_with_axes(value, 3, pytorch_axes(out))};
  }

  class BlockStage final : public Stage {
   public:
    // Rows of x along w, counted through the batch.  The pixels of a row that lie in one block are a run of elements in
    // y as in x.
    struct Rows {
      Rows(const Shape& x, std::int64_t block)
          : depth(x.n * x.d), height(x.h), b(block), blocks(x.w / block), run(block * x.c) {}

      KOKKOS_INLINE_FUNCTION std::int64_t count() const { return depth * height; }
      KOKKOS_INLINE_FUNCTION std::int64_t x(std::int64_t row, std::int64_t w) const { return (row * blocks + w) * run; }
      KOKKOS_INLINE_FUNCTION std::int64_t y(std::int64_t row, std::int64_t w) const {
        const std::int64_t d = row / height, h = row % height;
        const std::int64_t pixel = ((d / b) * (height / b) + h / b) * blocks + w;
        return (pixel * b * b + (d % b) * b + h % b) * run;
      }

      std::int64_t depth, height, b, blocks, run;
    };

    explicit BlockStage(std::int64_t block) : block_(block) {}

    void forward(const Context& context) override {
      const auto* x = buffers.x[0].as<float>();
      auto* y = buffers.y[0].as<float>();
      const Rows rows(buffers.x[0].shape, block_);
      launch(
          context, "petaflow::space_to_depth::forward[kokkos]"_label, rows.count(), KOKKOS_LAMBDA(std::int64_t row) {
            for (std::int64_t w = 0; w < rows.blocks; ++w) {
              for (std::int64_t i = 0; i < rows.run; ++i) y[rows.y(row, w) + i] = x[rows.x(row, w) + i];
            }
          });
    }

    void backward(const Context& context, float* /*gradient*/) override {
      if (buffers.dx[0].data == nullptr) return;
      auto* dx = buffers.dx[0].as<float>();
      const auto* dy = buffers.dy[0].as<float>();
      const Rows rows(buffers.x[0].shape, block_);
      launch(
          context, "petaflow::space_to_depth::backward[kokkos]"_label, rows.count(), KOKKOS_LAMBDA(std::int64_t row) {
            for (std::int64_t w = 0; w < rows.blocks; ++w) {
              for (std::int64_t i = 0; i < rows.run; ++i) dx[rows.x(row, w) + i] = dy[rows.y(row, w) + i];
            }
          });
    }

   private:
    std::int64_t block_;
  };

 private:
  std::int64_t block_;
};

}  // namespace petaflow
