// Each part of the pixels has its own sums, which are then added in the order of the parts; a part adds some pixels in
// f32 and these sums in double, so that sums of millions of pixels keep the precision of f32.
#include "kernels/channel_sum.hpp"

#include "kernels/launch.hpp"

namespace petaflow {
namespace {

std::int64_t parts_of(int host_parts) { return kOnHost ? host_parts : 512; }

template <class T>
struct SumChannelPart {
  std::int64_t pixels, channels, parts;
  const T* v;
  float* sums;  // (parts, channels)

  // Channels of an item: several on the host, where the loop over them vectorises.
  static constexpr std::int64_t kWidth = kOnHost ? 256 : 1;
  static constexpr std::int64_t kInF32 = 32;  // pixels

  KOKKOS_INLINE_FUNCTION std::int64_t blocks() const { return (channels + kWidth - 1) / kWidth; }
  std::int64_t items() const { return parts * blocks(); }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t part = item / blocks(), c0 = item % blocks() * kWidth;
    const std::int64_t width = channels - c0 < kWidth ? channels - c0 : kWidth;
    const std::int64_t end = pixels * (part + 1) / parts;
    double total[kWidth] = {};
    for (std::int64_t begin = pixels * part / parts; begin < end; begin += kInF32) {
      float some[kWidth] = {};
      for (std::int64_t p = begin; p < end && p < begin + kInF32; ++p) {
        const T* pixel = v + p * channels + c0;
        for (std::int64_t c = 0; c < width; ++c) some[c] += static_cast<float>(pixel[c]);
      }
      for (std::int64_t c = 0; c < width; ++c) total[c] += static_cast<double>(some[c]);
    }
    for (std::int64_t c = 0; c < width; ++c) sums[part * channels + c0 + c] = static_cast<float>(total[c]);
  }
};

struct AddChannelParts {
  std::int64_t channels, parts;
  const float* sums;
  float* sum;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t c) const {
    double total = 0;
    for (std::int64_t part = 0; part < parts; ++part) total += static_cast<double>(sums[part * channels + c]);
    sum[c] = static_cast<float>(total);
  }
};

template <class T>
void run(const Context& context, int host_parts, const T* v, std::int64_t pixels, std::int64_t channels, float* sum,
         float* sums) {
  const SumChannelPart<T> part{pixels, channels, parts_of(host_parts), v, sums};
  launch(context, "petaflow::bias::sum[kokkos]"_label, part.items(), part);
  launch(context, "petaflow::bias::add_parts[kokkos]"_label, channels,
         AddChannelParts{channels, part.parts, sums, sum});
}

}  // namespace

std::size_t channel_sum_scratch_bytes(int host_parts, std::int64_t channels) {
  return static_cast<std::size_t>(parts_of(host_parts) * channels) * sizeof(float);
}

void sum_channels(const Context& context, int host_parts, const void* v, DType type, std::int64_t pixels,
                  std::int64_t channels, float* sum, std::byte* scratch) {
  auto* sums = reinterpret_cast<float*>(scratch);
  if (type == DType::kF32) {
    run(context, host_parts, static_cast<const float*>(v), pixels, channels, sum, sums);
  } else {
    run(context, host_parts, static_cast<const Bf16*>(v), pixels, channels, sum, sums);
  }
}

}  // namespace petaflow
