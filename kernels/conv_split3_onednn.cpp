// f32 convolutions by three products of bf16: with a number cut into a bf16 and the bf16 of what is left, x = h + l,
//
//   x w = h_x h_w + h_x l_w + l_x h_w + O(2^-16 |x w|),
//
// which oneDNN sums in f32 in one convolution of bf16 with three times as many terms: channels (h_x, h_x, l_x) against
// (h_w, l_w, h_w) forward and backward data, samples in the weights' gradient.  Worth it where bf16 is multiplied more
// than three times as fast as f32: on AMX tiles (Intel).
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/launch.hpp"

namespace petaflow {

extern const ConvImpl kConvOnednn, kConvOnednnBlocked;

namespace split {
namespace {

constexpr int kParts = 3;

/// Which part of x stands in each of the three places: the high one, or the low one.
using Places = std::array<bool, kParts>;
constexpr Places kOfFirst = {false, false, true}, kOfSecond = {false, true, false};  // true: low

/// The pixels [0, count) of a tile, as the places of `channels` numbers each, `part_step` apart.
struct SplitPixels {
  const float* from;
  Bf16* to;
  Extent extent;
  Strides strides;  // of from
  std::int64_t channels, pixel_step, part_step;
  Places low;

  void operator()(std::int64_t pixel) const {
    const std::int64_t w = pixel % extent.w, h = pixel / extent.w % extent.h,
                       d = pixel / extent.w / extent.h % extent.d, n = pixel / extent.volume();
    const float* x = from + n * strides.n + d * strides.d + h * strides.h + w * strides.w;
    for (int part = 0; part < kParts; ++part) {
      Bf16* y = to + pixel * pixel_step + part * part_step;
      for (std::int64_t c = 0; c < channels; ++c) {
        const Bf16 high(x[c]);
        y[c] = low[static_cast<std::size_t>(part)] ? Bf16(x[c] - static_cast<float>(high)) : high;
      }
    }
  }
};

std::vector<ConvDesc> inner(Pass pass, std::span<const ConvDesc> tiles) {
  std::vector<ConvDesc> result(tiles.begin(), tiles.end());
  for (ConvDesc& desc : result) {
    desc.type = DType::kBf16;
    desc.widens = pass != Pass::kBackwardWeights;
    if (pass == Pass::kForward) desc.in_channels *= kParts;
    if (pass == Pass::kBackwardData) desc.out_channels *= kParts;
    if (pass == Pass::kBackwardWeights) desc.n *= kParts;
    if (pass != Pass::kBackwardData) desc.x_strides = Strides::of(desc.in, desc.in_channels);
    if (pass != Pass::kForward) desc.y_strides = Strides::of(desc.out, desc.out_channels);
  }
  return result;
}

class SplitKernel final : public ConvKernel {
 public:
  SplitKernel(const ConvImpl& impl, Pass pass, std::span<const ConvDesc> tiles)
      : pass_(pass), tiles_(tiles.begin(), tiles.end()), kernel_(impl.make(pass, inner(pass, tiles))) {
    for (const ConvDesc& desc : tiles_) {
      const std::int64_t x = kParts * desc.n * desc.in.volume() * desc.in_channels,
                         y = kParts * desc.n * desc.out.volume() * desc.out_channels;
      if (pass != Pass::kBackwardData)
        x_bytes_ = std::max(x_bytes_, padded(static_cast<std::size_t>(x) * sizeof(Bf16)));
      if (pass != Pass::kForward) y_bytes_ = std::max(y_bytes_, padded(static_cast<std::size_t>(y) * sizeof(Bf16)));
    }
  }

  // The inner kernel's own, and what it packs.
  std::size_t packed_bytes() const override {
    if (pass_ == Pass::kBackwardWeights) return 0;
    return padded(kernel_->packed_bytes()) +
           static_cast<std::size_t>(kParts * tiles_.front().weight_elements()) * sizeof(float);
  }

  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    // (out, in, taps) becomes (out, 3 in, taps), or (3 out, in, taps).
    const ConvDesc& desc = tiles_.front();
    const std::int64_t all = desc.weight_elements(), run = pass_ == Pass::kForward ? all / desc.out_channels : all;
    auto* const to = reinterpret_cast<float*>(packed + padded(kernel_->packed_bytes()));
    launch(context, "petaflow::conv::pack[split3]"_label, all, [=](std::int64_t i) {
      const float high = static_cast<float>(Bf16(weights[i]));
      for (int part = 0; part < kParts; ++part) {
        const bool low = kOfSecond[static_cast<std::size_t>(part)];
        to[(i / run * kParts + part) * run + i % run] = low ? weights[i] - high : high;
      }
    });
    kernel_->pack(context, to, packed);
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const ConvDesc& desc = tiles_[tile];
    auto* x = reinterpret_cast<Bf16*>(args.scratch);
    auto* y = reinterpret_cast<Bf16*>(args.scratch + x_bytes_);
    ConvArgs inner = args;
    inner.scratch = args.scratch + x_bytes_ + y_bytes_;
    if (pass_ != Pass::kBackwardData) {
      cut(context, desc, args.x, desc.in, desc.x_strides, desc.in_channels, kOfFirst, x);
      inner.x = x;
    }
    if (pass_ != Pass::kForward) {
      const Places& places = pass_ == Pass::kBackwardData ? kOfFirst : kOfSecond;
      cut(context, desc, args.y, desc.out, desc.y_strides, desc.out_channels, places, y);
      inner.y = y;
    }
    kernel_->run(context, tile, inner);
  }

  std::size_t scratch_bytes() const override { return x_bytes_ + y_bytes_ + kernel_->scratch_bytes(); }
  std::int64_t gradient_elements() const override { return kernel_->gradient_elements(); }
  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    kernel_->unpack_gradient(context, sum, dw);
  }
  std::string detail() const override { return "split3 " + kernel_->detail(); }

 private:
  void cut(const Context& context, const ConvDesc& desc, const void* from, const Extent& extent, const Strides& strides,
           std::int64_t channels, const Places& low, Bf16* to) const {
    const std::int64_t pixels = desc.n * extent.volume();
    const bool samples = pass_ == Pass::kBackwardWeights;  // the places are samples, otherwise channels
    launch(context, desc.threads, "petaflow::conv::cut[split3]"_label, pixels,
           SplitPixels{static_cast<const float*>(from), to, extent, strides, channels,
                       samples ? channels : kParts * channels, samples ? pixels * channels : channels, low});
  }

  Pass pass_;
  std::vector<ConvDesc> tiles_;
  std::unique_ptr<ConvKernel> kernel_;
  std::size_t x_bytes_ = 0, y_bytes_ = 0;
};

const ConvImpl& chosen(Pass pass, std::span<const ConvDesc> tiles) {
  const bool blocked = pass == Pass::kBackwardWeights && kConvOnednnBlocked.why_not(pass, inner(pass, tiles)).empty();
  return blocked ? kConvOnednnBlocked : kConvOnednn;
}

std::string why_not(Pass pass, std::span<const ConvDesc> tiles) {
  if (tiles.front().type != DType::kF32) return "for f32 only";
  if (tiles.front().geometry.groups != 1) return "without groups only";
  return chosen(pass, tiles).why_not(pass, inner(pass, tiles));
}

std::unique_ptr<ConvKernel> make(Pass pass, std::span<const ConvDesc> tiles) {
  return std::make_unique<SplitKernel>(chosen(pass, tiles), pass, tiles);
}

}  // namespace
}  // namespace split

extern const ConvImpl kConvSplit3;
const ConvImpl kConvSplit3 = {"split3", split::why_not, split::make};

}  // namespace petaflow
