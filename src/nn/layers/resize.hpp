// Bilinear resize of maps.
#pragma once

#include <memory>

#include "base/element.hpp"
#include "base/error.hpp"
#include "base/label.hpp"
#include "kernels/launch.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// Pixels of a line that a pixel of the resized one lies between.  Centres of pixels are at 1/2, 3/2, ...: ends of the
/// lines meet, and a mirrored line is the mirrored result.  Before the first centre and behind the last one lie copies.
struct ResizedLine {
  std::int64_t in, out;

  struct Sources {
    std::int64_t first, second;
    float share;  // of the second
  };
  KOKKOS_INLINE_FUNCTION Sources sources(std::int64_t o) const {
    const std::int64_t twice = (2 * o + 1) * in - out;  // 2 out times the place, which begins at the first centre
    if (twice <= 0) return {0, 0, 0};
    const std::int64_t first = twice / (2 * out), second = first + 1 < in ? first + 1 : first;
    return {first, second, static_cast<float>(twice - first * 2 * out) / static_cast<float>(2 * out)};
  }
  /// What a pixel of the line gives to one of the resized line.
  KOKKOS_INLINE_FUNCTION float weight(std::int64_t i, std::int64_t o) const {
    const Sources s = sources(o);
    return (i == s.first ? 1 - s.share : 0.0F) + (i == s.second ? s.share : 0.0F);
  }
  /// Pixels [begin, end) of the resized line, among which are all that a pixel of the line gives something to.
  KOKKOS_INLINE_FUNCTION std::int64_t begin(std::int64_t i) const { return i > 0 ? (2 * i - 1) * out / (2 * in) : 0; }
  KOKKOS_INLINE_FUNCTION std::int64_t end(std::int64_t i) const {
    const std::int64_t behind = (2 * i + 3) * out / (2 * in) + 1;
    return behind < out ? behind : out;
  }
};

/// x (N, C, 1, H, W) -> y (N, C, 1, height, width) by bilinear interpolation, as torch's interpolate does with
/// align_corners=False.  (TensorFlow 1 put the corners of pixels in the place of their centres, which shifts maps by
/// half a pixel.)
class Resize final : public Layer {
 public:
  Resize(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
    if (height < 1 || width < 1) user_error("a map cannot be resized to {} x {} pixels", height, width);
  }

  Shape output(const Shape& x) const override {
    if (x.d != 1) user_error("only maps are resized, found {}", to_string(x));
    return {x.n, x.c, 1, height_, width_};
  }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<ResizeStage>()}); }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    const int from = pytorch_axes(x[0].shape), to = pytorch_axes(output(x[0].shape));
    return {"", pytorch_with_axes(fmt::format("F.interpolate({}, ({}, {}), mode=\"bilinear\", align_corners=False)",
                                              pytorch_with_axes(x[0].text, from, 2), height_, width_),
                                  2, to)};
  }

  class ResizeStage final : public Stage {
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
      const Shape in = buffers.x[0].shape, out = buffers.y[0].shape;
      const auto* x = buffers.x[0].as<T>();
      auto* y = buffers.y[0].as<T>();
      const std::int64_t x_step = buffers.x[0].pixel_stride, y_step = buffers.y[0].pixel_stride;
      const ResizedLine h{in.h, out.h}, w{in.w, out.w};
      launch(
          context, "petaflow::resize::forward[kokkos]"_label, out.n * out.pixels(), KOKKOS_LAMBDA(std::int64_t pixel) {
            const std::int64_t n = pixel / out.w / out.h;
            const ResizedLine::Sources row = h.sources(pixel / out.w % out.h), column = w.sources(pixel % out.w);
            const auto at = [&](std::int64_t i, std::int64_t j) { return x + ((n * in.h + i) * in.w + j) * x_step; };
            const T *a = at(row.first, column.first), *b = at(row.first, column.second),
                    *c = at(row.second, column.first), *d = at(row.second, column.second);
            const float of_d = row.share * column.share, of_c = row.share - of_d, of_b = column.share - of_d,
                        of_a = 1 - row.share - of_b;
            for (std::int64_t k = 0; k < out.c; ++k) {
              y[pixel * y_step + k] = static_cast<T>(of_a * static_cast<float>(a[k]) + of_b * static_cast<float>(b[k]) +
                                                     of_c * static_cast<float>(c[k]) + of_d * static_cast<float>(d[k]));
            }
          });
    }

    // A pixel of dx sums what it has given, so that sums have one order on any number of threads.
    template <class T>
    void gather(const Context& context) const {
      const Shape in = buffers.dx[0].shape, out = buffers.dy[0].shape;
      auto* dx = buffers.dx[0].as<T>();
      const auto* dy = buffers.dy[0].as<T>();
      const std::int64_t x_step = buffers.dx[0].pixel_stride, y_step = buffers.dy[0].pixel_stride;
      const ResizedLine h{in.h, out.h}, w{in.w, out.w};
      launch(
          context, "petaflow::resize::backward[kokkos]"_label, in.n * in.pixels(), KOKKOS_LAMBDA(std::int64_t pixel) {
            constexpr int kTogether = 16;  // channels whose sums are held
            const std::int64_t j = pixel % in.w, i = pixel / in.w % in.h, n = pixel / in.w / in.h;
            for (std::int64_t first = 0; first < in.c; first += kTogether) {
              const std::int64_t channels = in.c - first < kTogether ? in.c - first : kTogether;
              float sum[kTogether] = {};
              for (std::int64_t p = h.begin(i); p < h.end(i); ++p) {
                for (std::int64_t q = w.begin(j); q < w.end(j); ++q) {
                  const float weight = h.weight(i, p) * w.weight(j, q);
                  const T* const from = dy + ((n * out.h + p) * out.w + q) * y_step + first;
                  for (std::int64_t k = 0; k < channels; ++k) sum[k] += weight * static_cast<float>(from[k]);
                }
              }
              for (std::int64_t k = 0; k < channels; ++k) dx[pixel * x_step + first + k] = static_cast<T>(sum[k]);
            }
          });
    }
  };

 private:
  std::int64_t height_, width_;
};

}  // namespace petaflow
