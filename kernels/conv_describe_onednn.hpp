// How oneDNN sees convolutions: the formats of their operands, and the primitives of all tiles of a layer (oneDNN
// developer guide, "Convolution", "Memory formats").
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/support_onednn.hpp"

namespace petaflow::onednn {

using dnnl::memory;

inline memory::data_type type_of(DType type) {
  return type == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
}

// Three directions, also for a tile of one plane: tiles share the dimensions of their weights.
inline bool is_deep(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  return desc.x_strides.n != desc.x_strides.d || desc.in.d > 1 || desc.out.d > 1 || g.kernel.d > 1 ||
         g.pad_begin.d != 0 || g.pad_end.d != 0;
}

inline memory::dims spatial(const ConvDesc& desc, const Extent& e) {
  return is_deep(desc) ? memory::dims{e.d, e.h, e.w} : memory::dims{e.h, e.w};
}

memory::desc activation(const ConvDesc& desc, DType type, const Extent& extent, std::int64_t channels,
                        const Strides& s) {
  memory::dims dims{desc.n, channels}, strides{s.n, 1};
  if (is_deep(desc)) {
    dims.push_back(extent.d);
    strides.push_back(s.d);
  }
  dims.insert(dims.end(), {extent.h, extent.w});
  strides.insert(strides.end(), {s.h, s.w});
  // The distance of samples or planes says nothing where there is one; oneDNN recognises the dense layout only.
  if (is_deep(desc) && extent.d == 1) strides[2] = extent.h * s.h;
  if (desc.n == 1) strides[0] = dims[2] * strides[2];
  return {dims, type_of(type), strides};
}

inline memory::desc any_format(const memory::desc& desc) {
  return {desc.get_dims(), desc.get_data_type(), memory::format_tag::any};
}

inline memory::dims weight_dims(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  memory::dims dims;
  if (g.groups > 1) dims.push_back(g.groups);
  dims.insert(dims.end(), {desc.out_channels / g.groups, desc.in_channels / g.groups});
  const memory::dims kernel = spatial(desc, g.kernel);
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  return dims;
}

// Weights in PyTorch's order: row-major.
inline memory::desc plain_weights(const ConvDesc& desc, memory::data_type type) {
  const memory::dims dims = weight_dims(desc);
  memory::dims strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
  return {dims, type, strides};
}

inline memory::dims zero_based(const ConvDesc& desc, const Extent& dilation) {
  memory::dims result = spatial(desc, dilation);
  for (auto& value : result) value -= 1;
  return result;
}

inline dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

struct Formats {
  memory::desc x, w, y;
};

// x and y as the caller has them.
inline memory::desc given_x(const ConvDesc& desc, Pass pass) {
  const DType type = desc.widens && pass == Pass::kBackwardData ? DType::kF32 : desc.type;
  return activation(desc, type, desc.in, desc.in_channels, desc.x_strides);
}

inline memory::desc given_y(const ConvDesc& desc, Pass pass) {
  const DType type = desc.widens && pass == Pass::kForward ? DType::kF32 : desc.type;
  return activation(desc, type, desc.out, desc.out_channels, desc.y_strides);
}

// Rows of several planes.
inline bool cuts_planes(const ConvDesc& desc) {
  return desc.in.d > 1 && desc.x_strides.d != desc.in.h * desc.x_strides.h;
}

// x, w and y of a tile as primitives take them.  Weights may take any format unless another tile has fixed it already.
inline Formats formats(const ConvDesc& desc, Pass pass, bool blocked, const memory::desc* fixed_weights) {
  const auto weight_type = pass == Pass::kBackwardWeights ? memory::data_type::f32 : type_of(desc.type);
  // oneDNN's kernels know neighbouring planes only: those of a copy.
  ConvDesc taken = desc;
  if (cuts_planes(desc)) taken.x_strides = Strides::of(desc.in, desc.in_channels);
  Formats f{
      given_x(taken, pass),
      fixed_weights != nullptr ? *fixed_weights : memory::desc(weight_dims(desc), weight_type, memory::format_tag::any),
      given_y(desc, pass)};
  if (blocked) {
    f.x = any_format(f.x);
    f.y = any_format(f.y);
  }
  return f;
}

inline Forward::primitive_desc describe_forward(const ConvDesc& d, const Formats& f) {
  const ConvGeometry& g = d.geometry;
  return {engine(),
          dnnl::prop_kind::forward_training,
          kDirect,
          f.x,
          f.w,
          f.y,
          spatial(d, g.stride),
          zero_based(d, g.dilation),
          spatial(d, g.pad_begin),
          spatial(d, g.pad_end),
          user_scratchpad()};
}

template <class PrimitiveDesc>
PrimitiveDesc describe_backward(const ConvDesc& d, const Formats& f) {
  const ConvGeometry& g = d.geometry;
  // The hint only has to describe the same convolution; what a backward pass writes may be f32 whatever the data are.
  const auto typed = [&](const memory::desc& desc) {
    return memory::desc(desc.get_dims(), type_of(d.type), memory::format_tag::any);
  };
  const Formats hint{d.widens ? typed(f.x) : f.x, typed(f.w), d.widens ? typed(f.y) : f.y};
  return {engine(),
          kDirect,
          f.x,
          f.w,
          f.y,
          spatial(d, g.stride),
          zero_based(d, g.dilation),
          spatial(d, g.pad_begin),
          spatial(d, g.pad_end),
          describe_forward(d, hint),
          user_scratchpad()};
}

inline memory::desc weights_of(const Forward::primitive_desc& pd) { return pd.weights_desc(); }
inline memory::desc weights_of(const BackwardData::primitive_desc& pd) { return pd.weights_desc(); }
inline memory::desc weights_of(const BackwardWeights::primitive_desc& pd) { return pd.diff_weights_desc(); }

// oneDNN's gemm and reference convolutions are slower than the portable kernel: refused by name ("gemm:jit",
// "x64:gemm:jit", "ref:any").
inline std::string refuse(const std::string& implementation) {
  for (const char* slow : {"gemm", "ref", "simple"}) {
    if ((":" + implementation).find(":" + std::string(slow)) != std::string::npos) {
      return fmt::format("oneDNN has only {} for it", implementation);
    }
  }
  return {};
}

template <class Primitive>
struct Described {
  std::vector<typename Primitive::primitive_desc> tiles;
  std::string refusal;
};

// The primitives of all tiles.  Each prefers a format of the weights, in which another one may have no fast kernel:
// they take one that suits all, and so the same kernel, where there is one.  Else each has its own, unless they add to
// one gradient.
template <class Primitive>
Described<Primitive> describe(Pass pass, std::span<const ConvDesc> tiles, bool blocked) {
  const auto in_format = [&](const memory::desc* weights) {
    Described<Primitive> result;
    try {
      for (const ConvDesc& desc : tiles) {
        const ThreadScope threads(desc.threads);
        const Formats f = formats(desc, pass, blocked, weights);
        if constexpr (std::is_same_v<Primitive, Forward>) {
          result.tiles.push_back(describe_forward(desc, f));
        } else {
          result.tiles.push_back(describe_backward<typename Primitive::primitive_desc>(desc, f));
        }
        result.refusal = refuse(result.tiles.back().impl_info_str());
        if (!result.refusal.empty()) break;
      }
    } catch (const dnnl::error& error) {
      result.refusal = fmt::format("oneDNN: {}", error.what());
    }
    return result;
  };
  Described<Primitive> own = in_format(nullptr);
  if (!own.refusal.empty()) return own;
  std::vector<memory::desc> preferred;
  for (const auto& pd : own.tiles) {
    if (std::ranges::find(preferred, weights_of(pd)) == preferred.end()) preferred.push_back(weights_of(pd));
  }
  if (preferred.size() == 1) return own;
  std::string refusal;
  for (const memory::desc& weights : preferred) {
    Described<Primitive> common = in_format(&weights);
    if (common.refusal.empty()) return common;
    refusal = common.refusal;
  }
  if constexpr (std::is_same_v<Primitive, BackwardWeights>) own.refusal = refusal;
  return own;
}

}  // namespace petaflow::onednn
