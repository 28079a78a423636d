// A convolution's descriptor as cuDNN's tensors.
#pragma once

#include "kernels/conv.hpp"
#include "kernels/plan_cudnn.hpp"

namespace petaflow::cudnn {

/// Whether D is a direction of its own.
inline bool is_deep(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  return desc.in.d > 1 || desc.out.d > 1 || g.kernel.d > 1 || g.pad_begin.d > 0 || g.pad_end.d > 0;
}

inline Element element_of(DType type) {
  if (type == DType::kF32) return Element::kF32;
  return type == DType::kBf16 ? Element::kBf16 : Element::kFp16;
}

/// One pass of a convolution; weights and their gradients lie (out_channels, taps, in_channels / groups).
inline Convolution describe(Pass pass, const ConvDesc& desc) {
  const bool deep = is_deep(desc);
  const auto along = [&](const Extent& e) { return deep ? std::vector{e.d, e.h, e.w} : std::vector{e.h, e.w}; };
  const auto tensor = [&](std::int64_t n, std::int64_t channels, const Extent& extent, const Strides& strides,
                          bool in_f32) {
    Tensor t{{n, channels}, {strides.n, 1}, in_f32 ? Element::kF32 : element_of(desc.type)};
    for (const std::int64_t size : along(extent)) t.size.push_back(size);
    for (const std::int64_t stride : along({strides.d, strides.h, strides.w})) t.stride.push_back(stride);
    return t;
  };
  const ConvGeometry& g = desc.geometry;
  const bool forward = pass == Pass::kForward, data = pass == Pass::kBackwardData;
  Convolution c;
  c.computes = forward ? Computes::kY : data ? Computes::kX : Computes::kW;
  c.x = tensor(desc.n, desc.in_channels, desc.in, desc.x_strides, desc.widens && data);
  c.y = tensor(desc.n, desc.out_channels, desc.out, desc.y_strides, desc.widens && forward);
  const std::int64_t depth = desc.in_channels / g.groups;
  c.w = tensor(desc.out_channels, depth, g.kernel, Strides::of(g.kernel, depth), false);
  c.pad_begin = along(g.pad_begin), c.pad_end = along(g.pad_end);
  c.stride = along(g.stride), c.dilation = along(g.dilation);
  c.tf32 = desc.type == DType::kF32 && desc.products == F32Products::kTf32;
  return c;
}

/// cuDNN's frontend promises its engines tensors that begin at multiples of 16 bytes: whole ones do.  Of slices the
/// pixels, too, must begin there, so that what an engine reads at once is no matter of luck.
inline bool begins_unaligned(const ConvDesc& desc) {
  const auto unaligned = [&](const Strides& strides, std::int64_t channels, std::int64_t first) {
    const auto element = static_cast<std::int64_t>(size_of(desc.type));
    return strides.w != channels && (first * element % 16 != 0 || strides.w * element % 16 != 0);
  };
  return unaligned(desc.x_strides, desc.in_channels, desc.x_channel) ||
         unaligned(desc.y_strides, desc.out_channels, desc.y_channel);
}

}  // namespace petaflow::cudnn
