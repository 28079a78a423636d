// Runs one implementation of a convolution on planar arrays in double: packs, runs whole or in boxes, unpacks.
#pragma once

#include <string>
#include <vector>

#include "conv_reference.hpp"
#include "op_support.hpp"

namespace petaflow::testing_support {

/// A box with the positions of its first element in x and y.
struct PlacedBox {
  ConvDesc desc;
  std::int64_t sample = 0, x_row = 0, y_row = 0;  // rows in h
};

inline ConvDesc whole_desc(const cases::ConvCase& c, DType type, int threads) {
  ConvDesc desc;
  desc.n = c.n, desc.in_channels = c.in_channels, desc.out_channels = c.out_channels;
  desc.in = c.in, desc.out = window_output(c.in, c.geometry), desc.geometry = c.geometry;
  desc.x_strides = Strides::of(desc.in, c.in_channels + c.x_gap);
  desc.y_strides = Strides::of(desc.out, c.out_channels + c.y_gap);
  desc.type = type, desc.threads = threads;
  return desc;
}

/// Boxes of `height` rows (of y; of x in backward data) of one sample, each for one thread; where that is all rows, of
/// all samples.
inline std::vector<PlacedBox> boxes_of(Pass pass, const cases::ConvCase& c, DType type, std::int64_t height) {
  std::vector<PlacedBox> boxes;
  const ConvDesc whole = whole_desc(c, type, 1);
  const ConvGeometry& g = c.geometry;
  const std::int64_t span = g.dilation.h * (g.kernel.h - 1);
  const std::int64_t rows = pass == Pass::kBackwardData ? whole.in.h : whole.out.h;
  const std::int64_t samples = height >= rows ? whole.n : 1, per_sample = (rows + height - 1) / height;
  for (std::int64_t i = 0; i < whole.n / samples * per_sample; ++i) {
    const std::int64_t begin = i % per_sample * height, end = std::min(begin + height, rows);
    PlacedBox box{whole, i / per_sample};
    box.desc.n = samples;
    std::int64_t x0 = begin, x1 = end, y0 = begin, y1 = end;
    if (pass == Pass::kBackwardData) {  // rows of dy that reach rows [begin, end) of dx
      y0 = std::max<std::int64_t>(0, (begin + g.pad_begin.h - span + g.stride.h - 1) / g.stride.h);
      y1 = std::min(whole.out.h, (end - 1 + g.pad_begin.h) / g.stride.h + 1);
    } else {
      x0 = std::clamp<std::int64_t>(begin * g.stride.h - g.pad_begin.h, 0, whole.in.h);
      x1 = std::clamp<std::int64_t>((end - 1) * g.stride.h - g.pad_begin.h + span + 1, x0, whole.in.h);
    }
    box.x_row = x0, box.y_row = y0;
    box.desc.in.h = x1 - x0, box.desc.out.h = std::max<std::int64_t>(0, y1 - y0);
    box.desc.geometry.pad_begin.h = g.pad_begin.h + x0 - y0 * g.stride.h;
    box.desc.geometry.pad_end.h =
        (box.desc.out.h - 1) * g.stride.h + span + 1 - box.desc.in.h - box.desc.geometry.pad_begin.h;
    boxes.push_back(box);
  }
  return boxes;
}

/// Planar (N, C, pixels) to channels-last with a gap of kGap values between the pixels.
inline constexpr float kGap = 777;
template <class T>
std::vector<T> to_channels_last(const std::vector<double>& planar, std::int64_t n, std::int64_t c, std::int64_t pixels,
                                std::int64_t gap) {
  std::vector<T> out(static_cast<std::size_t>(n * pixels * (c + gap)), static_cast<T>(kGap));
  for (std::int64_t i = 0; i < n * c * pixels; ++i) {
    const std::int64_t pixel = i % pixels, channel = i / pixels % c, sample = i / pixels / c;
    out[static_cast<std::size_t>((sample * pixels + pixel) * (c + gap) + channel)] =
        static_cast<T>(static_cast<float>(planar[static_cast<std::size_t>(i)]));
  }
  return out;
}

/// The way back; fails the test where a gap was written.
template <class T>
std::vector<double> to_planar(const std::vector<T>& from, std::int64_t n, std::int64_t c, std::int64_t pixels,
                              std::int64_t gap) {
  std::vector<double> planar(static_cast<std::size_t>(n * c * pixels));
  for (std::int64_t i = 0; i < n * pixels * (c + gap); ++i) {
    const std::int64_t channel = i % (c + gap), pixel = i / (c + gap) % pixels, sample = i / (c + gap) / pixels;
    const float value = static_cast<float>(from[static_cast<std::size_t>(i)]);
    if (channel < c) {
      planar[static_cast<std::size_t>((sample * c + channel) * pixels + pixel)] = static_cast<double>(value);
    } else {
      EXPECT_EQ(value, static_cast<float>(static_cast<T>(kGap))) << "a channel of somebody else was written";
    }
  }
  return planar;
}

/// Replaces the result of the pass in `arrays` by what the kernel computes (weights: the sum of what it leaves of all
/// boxes). The boxes of one thread run inside a parallel region, as ConvStage calls them.  Gives the name of the code
/// that ran.
template <class T>
std::string run_conv(const ConvImpl& impl, Pass pass, const cases::ConvCase& c, const std::vector<PlacedBox>& boxes,
                     ConvArrays& arrays) {
  std::vector<ConvDesc> descs;
  for (const PlacedBox& box : boxes) descs.push_back(box.desc);
  const auto kernel = impl.make(pass, descs);
  EXPECT_FALSE(kernel->detail().empty());
  const ConvDesc whole = whole_desc(c, kDTypeOf<T>, 2);
  const int threads = descs.front().threads;
  const Context context = context_for(threads);

  std::vector<double> x = arrays.x, y = arrays.y;
  if (pass == Pass::kForward) y.assign(y.size(), NAN);
  if (pass == Pass::kBackwardData) x.assign(x.size(), NAN);
  const DeviceArray<T> dx(to_channels_last<T>(x, c.n, c.in_channels, c.in.volume(), c.x_gap));
  const DeviceArray<T> dy(to_channels_last<T>(y, c.n, c.out_channels, whole.out.volume(), c.y_gap));
  const DeviceArray<float> w(std::vector<float>(arrays.w.begin(), arrays.w.end()));
  const DeviceArray<std::byte> packed(std::vector<std::byte>(kernel->packed_bytes() + 64, std::byte{0xFF}));  // NaN
  if (kernel->packed_bytes() > 0) kernel->pack(context, w.data(), packed.data());
  const std::byte* const weights =
      kernel->packed_bytes() > 0 ? packed.data() : reinterpret_cast<const std::byte*>(w.data());

  const auto count = static_cast<std::int64_t>(boxes.size());
  const std::size_t scratch_bytes = padded(kernel->scratch_bytes()) + 64,
                    own = static_cast<std::size_t>(kernel->gradient_elements()), sums = own > 0 ? own : arrays.w.size();
  const DeviceArray<std::byte> scratch(std::vector<std::byte>(scratch_bytes * boxes.size(), std::byte{0xFF}));  // NaN
  const DeviceArray<float> sum(std::vector<float>(sums * boxes.size() + 1, own > 0 ? 0.0F : NAN));  // or written alone
  const auto run_box = [&](std::int64_t i) {
    const auto b = static_cast<std::size_t>(i);
    kernel->run(context, b,
                {dx.data() + boxes[b].sample * whole.x_strides.n + boxes[b].x_row * whole.x_strides.h,
                 dy.data() + boxes[b].sample * whole.y_strides.n + boxes[b].y_row * whole.y_strides.h,
                 sum.data() + b * sums, scratch.data() + b * scratch_bytes, weights});
  };
  if (threads == 1 && kOnHost) {  // as from inside a parallel region
    Kokkos::parallel_for("test", Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, count), run_box);
  } else {
    for (std::int64_t i = 0; i < count; ++i) run_box(i);
  }

  if (pass == Pass::kForward) arrays.y = to_planar(dy.get(), c.n, c.out_channels, whole.out.volume(), c.y_gap);
  if (pass == Pass::kBackwardData) arrays.x = to_planar(dx.get(), c.n, c.in_channels, c.in.volume(), c.x_gap);
  if (pass == Pass::kBackwardWeights) {
    if (own == 0) {  // dw itself
      EXPECT_EQ(boxes.size(), 1U) << "for whole tensors only";
    }
    std::vector<float> total(arrays.w.size());
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      const DeviceArray<float> dw(std::vector<float>(arrays.w.size(), NAN));
      if (own > 0) kernel->unpack_gradient(context, sum.data() + b * sums, dw.data());
      const std::vector<float> found = own > 0 ? dw.get() : sum.get();
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += found[i];
    }
    arrays.w.assign(total.begin(), total.end());
  }
  return kernel->detail();
}

}  // namespace petaflow::testing_support
