// Each part of the pixels has its own sums, which are then added in the order of the parts; a part adds some pixels in
// f32 and these sums in double, so that sums of millions of pixels keep the precision of f32.
#include "kernels/channel_sum.hpp"

#include <algorithm>

#include "base/element.hpp"
#include "kernels/cuts.hpp"
#include "kernels/lanes.hpp"
#include "kernels/launch.hpp"

namespace petaflow {
namespace {

constexpr std::int64_t kInF32 = 32;  // pixels

// A device is full of threads that read a few channels each (H200: 270,336).
std::int64_t parts_of(int host_parts, std::int64_t pixels, std::int64_t channels) {
  constexpr std::int64_t kThreads = 1 << 18;
  if (cuts_for_host()) return host_parts;
  return std::clamp<std::int64_t>(kThreads * lanes::kLanes / channels, 1, std::max<std::int64_t>(1, pixels / kInF32));
}
/// Parts that a device makes of many before it adds these; 0: it adds all at once.
std::int64_t second_parts_of(std::int64_t parts) {
  constexpr std::int64_t kParts = 256;
  return !cuts_for_host() && parts > kParts ? kParts : 0;
}

template <class T>
struct SumChannelPart {
  std::int64_t pixels, channels, parts;
  const T* v;
  float* sums;  // (parts, channels)

  // Channels of an item: on the host as many as vectorise well, on a device as many as a thread reads at once.
  static constexpr int kWidth = kOnHost ? 256 : lanes::kLanes;

  KOKKOS_INLINE_FUNCTION std::int64_t blocks() const { return (channels + kWidth - 1) / kWidth; }
  std::int64_t items() const { return parts * blocks(); }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t part = item / blocks(), c0 = item % blocks() * kWidth;
    const int width = channels - c0 < kWidth ? static_cast<int>(channels - c0) : kWidth;
    const std::int64_t end = pixels * (part + 1) / parts;
    const int count = kOnHost ? width : kWidth;  // on a device a constant, so that sums stay in registers
    double total[kWidth] = {};
    for (std::int64_t begin = pixels * part / parts; begin < end; begin += kInF32) {
      float some[kWidth] = {};
      for (std::int64_t p = begin; p < end && p < begin + kInF32; ++p) add(v + p * channels + c0, width, some);
      for (int c = 0; c < count; ++c) total[c] += static_cast<double>(some[c]);
    }
    for (int c = 0; c < count; ++c) {
      if (c < width) sums[part * channels + c0 + c] = static_cast<float>(total[c]);
    }
  }

 private:
  static KOKKOS_INLINE_FUNCTION void add(const T* pixel, int width, float (&some)[kWidth]) {
    if constexpr (kOnHost) {
      for (int c = 0; c < width; ++c) some[c] += static_cast<float>(pixel[c]);
    } else {
      lanes::Floats values;
      width == kWidth ? lanes::load(pixel, values) : lanes::load_part(pixel, width, values);
      for (int c = 0; c < kWidth; ++c) some[c] += values[c];
    }
  }
};

/// (parts, channels) -> (fewer, channels): each is the sum of neighbours.
struct AddChannelParts {
  std::int64_t channels, parts, fewer;
  const float* sums;
  float* to;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t out = item / channels, c = item % channels;
    double total = 0;
    for (std::int64_t part = parts * out / fewer; part < parts * (out + 1) / fewer; ++part) {
      total += static_cast<double>(sums[part * channels + c]);
    }
    to[item] = static_cast<float>(total);
  }
};

template <class T>
void run(const Context& context, int host_parts, const T* v, std::int64_t pixels, std::int64_t channels, float* sum,
         float* sums) {
  const SumChannelPart<T> part{pixels, channels, parts_of(host_parts, pixels, channels), v, sums};
  launch(context, "petaflow::bias::sum[kokkos]"_label, part.items(), part);
  const std::string& add = "petaflow::bias::add_parts[kokkos]"_label;
  const std::int64_t fewer = second_parts_of(part.parts);
  if (fewer > 0) {
    float* second = sums + part.parts * channels;
    launch(context, add, fewer * channels, AddChannelParts{channels, part.parts, fewer, sums, second});
    launch(context, add, channels, AddChannelParts{channels, fewer, 1, second, sum});
  } else {
    launch(context, add, channels, AddChannelParts{channels, part.parts, 1, sums, sum});
  }
}

}  // namespace

std::size_t channel_sum_scratch_bytes(int host_parts, std::int64_t pixels, std::int64_t channels) {
  const std::int64_t parts = parts_of(host_parts, pixels, channels);
  return static_cast<std::size_t>((parts + second_parts_of(parts)) * channels) * sizeof(float);
}

void sum_channels(const Context& context, int host_parts, const void* v, DType type, std::int64_t pixels,
                  std::int64_t channels, float* sum, std::byte* scratch) {
  auto* sums = reinterpret_cast<float*>(scratch);
  with_element(type,
               [&]<class T>(T) { run(context, host_parts, static_cast<const T*>(v), pixels, channels, sum, sums); });
}

}  // namespace petaflow
