// Convolutions with stride 2 in the plane as four without stride, one for each phase: every other pixel of every other
// row of x meets every other tap of every other row of the kernel.
//
//   y(o) = sum_t x(2 o + t - pad) w(t) = sum_r sum_u x_r(o + u - pad_r) w_r(u),   w_r(u) = w(2 u + r),  r = 0, 1
//
// in each direction, where x_r are the pixels 2 j + first_r of x.  All phases have as many taps, the last of which may
// be zero: 5 x 5 become 3 x 3.  By transforms that compute 16 pixels of a 3 x 3 convolution by 36 products, the
// gradient of the input takes 0.36 of the products of the definition.  (Of 3 x 3 taps in phases of 2 x 2 it would be
// 0.64: slower than sums of products.)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/launch.hpp"
#include "kernels/put_rows.hpp"
#include "kernels/register_blocks.hpp"
#include "kernels/winograd_weights.hpp"

namespace petaflow::winograd {

inline constexpr int kPhases = 4;  // (row, column) of the first tap

/// Whether a convolution is to be cut into phases.  Planes of volumes are left alone.
inline bool has_phases(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  return g.stride == Extent{1, 2, 2} && g.kernel.d == 1 && desc.in.d == 1 && desc.out.d == 1;
}

/// One phase of a tile, and how many elements behind the tile's first one its own x begins.
struct PhaseOfTile {
  ConvDesc desc;
  std::int64_t x = 0;
};

inline PhaseOfTile phase_of(const ConvDesc& tile, int phase) {
  PhaseOfTile result{tile};
  ConvDesc& desc = result.desc;
  ConvGeometry& g = desc.geometry;
  const auto cut = [](std::int64_t first_tap, std::int64_t out, std::int64_t& in, std::int64_t& kernel,
                      std::int64_t& pad_begin, std::int64_t& pad_end) {
    const std::int64_t first = (first_tap + pad_begin) % 2;
    kernel = ceil_div(kernel, 2);
    in = ceil_div(in - first, 2);
    pad_begin = (first + pad_begin - first_tap) / 2;
    pad_end = std::max<std::int64_t>(0, out + kernel - 1 - pad_begin - in);
    return first;
  };
  const std::int64_t h = cut(phase / 2, desc.out.h, desc.in.h, g.kernel.h, g.pad_begin.h, g.pad_end.h),
                     w = cut(phase % 2, desc.out.w, desc.in.w, g.kernel.w, g.pad_begin.w, g.pad_end.w);
  result.x = h * desc.x_strides.h + w * desc.x_strides.w;
  g.stride = {1, 1, 1};
  desc.x_strides.h *= 2, desc.x_strides.w *= 2;
  return result;
}

/// The same phase of all tiles.
inline std::vector<ConvDesc> phase_of(std::span<const ConvDesc> tiles, int phase) {
  std::vector<ConvDesc> result;
  for (const ConvDesc& tile : tiles) result.push_back(phase_of(tile, phase).desc);
  return result;
}

class PhasesKernel final : public ConvKernel {
 public:
  using Make = std::unique_ptr<ConvKernel> (*)(Pass pass, std::span<const ConvDesc> tiles, const TapsOf& of);

  PhasesKernel(Pass pass, std::span<const ConvDesc> tiles, Make make)
      : pass_(pass), tiles_(tiles.begin(), tiles.end()) {
    const std::int64_t kernel = tiles.front().geometry.kernel.h;
    for (int p = 0; p < kPhases; ++p) {
      std::vector<ConvDesc> descs;
      for (const ConvDesc& tile : tiles_) {
        const PhaseOfTile of = phase_of(tile, p);
        x_[at(p)].push_back(of.x);
        descs.push_back(of.desc);
        if (!adds(p)) continue;
        descs.back().y_strides = Strides::of(tile.out, tile.out_channels);
        y_bytes_ = std::max(y_bytes_, padded(static_cast<std::size_t>(tile.n * tile.out.volume() * tile.out_channels) *
                                             size_of(tile.type)));
      }
      kernels_[at(p)] = make(pass, descs, {kernel, 2, p / 2, p % 2});
      kernel_bytes_ = std::max(kernel_bytes_, kernels_[at(p)]->scratch_bytes());
    }
  }

  std::size_t packed_bytes() const override { return kPhases * kernels_[0]->packed_bytes(); }

  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    for (int p = 0; p < kPhases; ++p)
      kernels_[at(p)]->pack(context, weights, packed + at(p) * kernels_[0]->packed_bytes());
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const ConvDesc& desc = tiles_[tile];
    for (int p = 0; p < kPhases; ++p) {
      ConvArgs own = args;
      own.x = static_cast<std::byte*>(args.x) + static_cast<std::size_t>(x_[at(p)][tile]) * size_of(desc.type);
      own.scratch = args.scratch + y_bytes_;
      own.weights = args.weights + at(p) * kernels_[0]->packed_bytes();
      if (adds(p)) own.y = args.scratch;
      if (pass_ == Pass::kBackwardWeights) own.sum = args.sum + p * kernels_[0]->gradient_elements();
      kernels_[at(p)]->run(context, tile, own);
      if (adds(p)) desc.type == DType::kF32 ? add<float>(context, desc, args) : add<Bf16>(context, desc, args);
    }
  }

  std::size_t scratch_bytes() const override { return y_bytes_ + kernel_bytes_; }
  std::int64_t gradient_elements() const override { return kPhases * kernels_[0]->gradient_elements(); }

  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    for (int p = 0; p < kPhases; ++p)
      kernels_[at(p)]->unpack_gradient(context, sum + p * kernels_[0]->gradient_elements(), dw);
  }

  std::string detail() const override { return fmt::format("{} of {} phases", kernels_[0]->detail(), kPhases); }

 private:
  static std::size_t at(int phase) { return static_cast<std::size_t>(phase); }
  /// Whether a phase computes a part of y that others have written.
  bool adds(int phase) const { return pass_ == Pass::kForward && phase > 0; }
  template <class T>
  void add(const Context& context, const ConvDesc& desc, const ConvArgs& args) const {
    launch(context, desc.threads, "petaflow::conv::add_phase[winograd]"_label, desc.n * desc.out.h,
           PutRows<T, true>{reinterpret_cast<const T*>(args.scratch), static_cast<T*>(args.y), desc.y_strides, desc.out,
                            desc.out_channels});
  }

  Pass pass_;
  std::vector<ConvDesc> tiles_;
  std::array<std::unique_ptr<ConvKernel>, kPhases> kernels_;
  std::array<std::vector<std::int64_t>, kPhases> x_;  // where a phase of a tile begins
  std::size_t y_bytes_ = 0, kernel_bytes_ = 0;        // scratch: a phase's part of y, and what the kernels take
};

}  // namespace petaflow::winograd
