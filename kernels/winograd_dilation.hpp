// Planar convolutions with dilation r as convolutions without it: pixels of y of one phase, which are those of the same
// row and column modulo r, read pixels of one phase of x.
//
//   y(r j + s) = sum_t x(r j + s + r t - pad) w(t) = sum_t x_s(j + t - pad / r) w(t),   x_s(j) = x(r j + s)
//
// in each direction, where r divides the padding.  Phases differ in where they begin alone, so those of a row are the
// samples of one convolution and those of a column its planes: its matrices have rows of all phases, however small the
// dilated plane of each is.
#pragma once

#include <cstdint>
#include <string>

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
  if (g.stride != Extent{1, 1, 1}) return "with dilation without stride only";
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

}  // namespace petaflow::winograd
