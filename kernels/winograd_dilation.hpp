// Planar convolutions with dilation r as convolutions without it: pixels of y of one phase, which are those of the same
// row and column modulo r, read pixels of one phase of x.
//
//   y(r j + s) = sum_t x(r j + s + r t - pad) w(t) = sum_t x_s(j + t - pad / r) w(t),   x_s(j) = x(r j + s)
//
// in each direction, where r divides the padding.  Phases differ in where they begin alone, so those of a row are the
// samples of one convolution and those of a column its planes: its matrices have rows of all phases, however small the
// dilated plane of each is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/conv.hpp"

namespace petaflow::winograd {

/// Whether a convolution is dilated, in the plane and with nothing else.
inline bool is_dilated(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  return g.dilation.h > 1 && g.dilation.d == 1 && g.kernel.d == 1 && desc.in.d == 1 && desc.out.d == 1;
}

/// Empty where all phases have the same extents and paddings.
inline std::string why_no_phases(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  const std::int64_t r = g.dilation.h;
  if (g.dilation.w != r) return "with the same dilation of rows and columns only";
  for (const std::int64_t pixels : {desc.in.h, desc.in.w, desc.out.h, desc.out.w, g.pad_begin.h, g.pad_begin.w}) {
    if (pixels % r != 0) return fmt::format("with extents and padding that the dilation {} divides only", r);
  }
  return {};
}

/// All phases of a sample.
inline ConvDesc phases_of_sample(const ConvDesc& dilated) {
  ConvDesc desc = dilated;
  ConvGeometry& g = desc.geometry;
  const std::int64_t r = g.dilation.h;
  desc.n = r;
  for (Extent* extent : {&desc.in, &desc.out}) *extent = {r, extent->h / r, extent->w / r};
  for (Strides* s : {&desc.x_strides, &desc.y_strides}) *s = {s->w, s->h, r * s->h, r * s->w};
  g.pad_begin.h /= r, g.pad_begin.w /= r;
  g.pad_end.h /= r, g.pad_end.w /= r;
  g.dilation = {1, 1, 1};
  return desc;
}

inline std::vector<ConvDesc> phases_of_sample(std::span<const ConvDesc> tiles) {
  std::vector<ConvDesc> result;
  for (const ConvDesc& tile : tiles) result.push_back(phases_of_sample(tile));
  return result;
}

class DilatedKernel final : public ConvKernel {
 public:
  /// @param kernel  of the phases of a sample of each tile
  DilatedKernel(std::span<const ConvDesc> tiles, std::unique_ptr<ConvKernel> kernel)
      : tiles_(tiles.begin(), tiles.end()), kernel_(std::move(kernel)) {}

  std::size_t packed_bytes() const override { return kernel_->packed_bytes(); }
  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    kernel_->pack(context, weights, packed);
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const ConvDesc& desc = tiles_[tile];
    const auto sample_of = [&](void* tensor, std::int64_t n, const Strides& strides) {
      return static_cast<std::byte*>(tensor) + static_cast<std::size_t>(n * strides.n) * size_of(desc.type);
    };
    for (std::int64_t n = 0; n < desc.n; ++n) {
      ConvArgs own = args;
      own.x = sample_of(args.x, n, desc.x_strides);
      own.y = sample_of(args.y, n, desc.y_strides);
      kernel_->run(context, tile, own);
    }
  }

  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  std::int64_t gradient_elements() const override { return kernel_->gradient_elements(); }
  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    kernel_->unpack_gradient(context, sum, dw);
  }
  std::string detail() const override {
    return fmt::format("{} of {} phases", kernel_->detail(),
                       tiles_.front().geometry.dilation.h * tiles_.front().geometry.dilation.w);
  }

 private:
  std::vector<ConvDesc> tiles_;
  std::unique_ptr<ConvKernel> kernel_;
};

}  // namespace petaflow::winograd
