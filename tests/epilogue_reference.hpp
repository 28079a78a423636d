// The definition of an epilogue in double, beside which kernels are held.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/epilogue.hpp"

namespace petaflow::testing_support {

/// State of the step that the reference draws dropout for; without samples.
inline StepState step_state() {
  StepState state;
  state.seed = 11, state.epoch = 4;
  return state;
}

/// Draw `channel % 8` of the block of the pixel's eight channels.
inline bool keeps(const EpilogueDesc& desc, std::int64_t sample, std::int64_t pixel, std::int64_t channel) {
  const RandomStream stream = layer_stream(step_state(), RandomPurpose::kDropout, desc.layer);
  const RandomBlock block = stream(static_cast<std::uint64_t>(sample),
                                   static_cast<std::uint64_t>(pixel * ((desc.y.c + 7) / 8) + channel / 8));
  const std::uint32_t draw = block.word[channel % 8 / 2] >> (16 * (channel % 2)) & 0xFFFFU;
  return draw >= std::lround(desc.dropout * 65536.0F);
}

struct EpilogueReference {
  std::vector<double> y, dz;
};

/// One element of y after the other.
/// @param z        of desc.v, in the order of memory: what is pooled
/// @param dy       of desc.y
/// @param samples  of each slot: the global sample index
inline EpilogueReference epilogue_reference(const EpilogueDesc& desc, const std::vector<double>& z,
                                            const std::vector<double>& dy, const std::vector<std::int64_t>& samples,
                                            bool training) {
  EpilogueReference e;
  e.y.resize(dy.size()), e.dz.resize(z.size());
  const PoolGeometry& pool = desc.pool;
  for (std::int64_t i = 0; i < desc.y.elements(); ++i) {
    const std::int64_t c = i % desc.y.c, pixel = i / desc.y.c % desc.y.pixels(), n = i / desc.y.sample_size();
    const std::int64_t w0 = pixel % desc.y.w * pool.stride.w - pool.pad.w,
                       h0 = pixel / desc.y.w % desc.y.h * pool.stride.h - pool.pad.h,
                       d0 = pixel / desc.y.w / desc.y.h * pool.stride.d - pool.pad.d;
    std::vector<std::size_t> window;
    for (std::int64_t d = std::max<std::int64_t>(0, d0); d < std::min(d0 + pool.window.d, desc.v.d); ++d)
      for (std::int64_t h = std::max<std::int64_t>(0, h0); h < std::min(h0 + pool.window.h, desc.v.h); ++h)
        for (std::int64_t w = std::max<std::int64_t>(0, w0); w < std::min(w0 + pool.window.w, desc.v.w); ++w)
          window.push_back(
              static_cast<std::size_t>((((n * desc.v.d + d) * desc.v.h + h) * desc.v.w + w) * desc.v.c + c));
    if (pool.kind != PoolKind::kAverage) {  // of equal values the first, of NaN the last
      std::size_t best = window.front();
      for (const std::size_t v : window) {
        if (z[v] > z[best] || std::isnan(z[v])) best = v;
      }
      window = {best};
    }
    const bool drops = training && desc.dropout > 0;
    if (drops && !keeps(desc, samples[static_cast<std::size_t>(n)], pixel, c)) continue;
    const double scale = (drops ? 1 / (1 - static_cast<double>(desc.dropout)) : 1) /
                         static_cast<double>(pool.kind == PoolKind::kAverage ? pool.window.volume() : 1);
    for (const std::size_t v : window) {
      const double slope = z[v] > 0 || !desc.activation ? 1 : static_cast<double>(desc.negative_slope);
      e.y[static_cast<std::size_t>(i)] += scale * slope * z[v];
      e.dz[v] += scale * slope * dy[static_cast<std::size_t>(i)];
    }
  }
  return e;
}

}  // namespace petaflow::testing_support
