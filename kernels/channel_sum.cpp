// Each part of the pixels has its own sums, which are then added in the order of the parts.
#include "kernels/channel_sum.hpp"

#include "kernels/launch.hpp"

namespace petaflow {
namespace {

std::int64_t parts_of(int slots) { return kOnHost ? slots : 512; }

template <class T>
struct SumChannelPart {
  std::int64_t pixels, channels, parts;
  const T* v;
  float* sums;  // (parts, channels)

  // All channels of a part on the host, where the loop over them vectorises; one channel on a device.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t width = kOnHost ? channels : 1, per_part = channels / width;
    const std::int64_t part = item / per_part, c0 = item % per_part * width;
    float* sum = sums + part * channels + c0;
    for (std::int64_t c = 0; c < width; ++c) sum[c] = 0;
    for (std::int64_t p = pixels * part / parts; p < pixels * (part + 1) / parts; ++p) {
      const T* pixel = v + p * channels + c0;
      for (std::int64_t c = 0; c < width; ++c) sum[c] += static_cast<float>(pixel[c]);
    }
  }
  std::int64_t items() const { return kOnHost ? parts : parts * channels; }
};

struct AddChannelParts {
  std::int64_t channels, parts;
  const float* sums;
  float* sum;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t c) const {
    float total = 0;
    for (std::int64_t part = 0; part < parts; ++part) total += sums[part * channels + c];
    sum[c] = total;
  }
};

template <class T>
void run(const Context& context, int slots, const T* v, std::int64_t pixels, std::int64_t channels, float* sum,
         float* sums) {
  const SumChannelPart<T> part{pixels, channels, parts_of(slots), v, sums};
  launch(context, "petaflow::bias::sum[kokkos]"_label, part.items(), part);
  launch(context, "petaflow::bias::add_parts[kokkos]"_label, channels,
         AddChannelParts{channels, part.parts, sums, sum});
}

}  // namespace

std::size_t channel_sum_scratch_bytes(int slots, std::int64_t channels) {
  return static_cast<std::size_t>(parts_of(slots) * channels) * sizeof(float);
}

void sum_channels(const Context& context, int slots, const void* v, DType type, std::int64_t pixels,
                  std::int64_t channels, float* sum, std::byte* scratch) {
  auto* sums = reinterpret_cast<float*>(scratch);
  if (type == DType::kF32) {
    run(context, slots, static_cast<const float*>(v), pixels, channels, sum, sums);
  } else {
    run(context, slots, static_cast<const Bf16*>(v), pixels, channels, sum, sums);
  }
}

}  // namespace petaflow
