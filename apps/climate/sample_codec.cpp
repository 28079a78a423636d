#include "climate/sample_codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.hpp"
#include "base/error.hpp"

namespace petaflow::climate {
namespace {

constexpr float kLargestHalf = 65504;

void encode_half(std::span<const float> x, Fp16* to) {
  const auto large = std::ranges::find_if(x, [](float value) { return std::abs(value) > kLargestHalf; });
  if (large != x.end()) {
    user_error(
        "data.cache_type = \"f16\" holds numbers up to {}, but one of a scaled sample is {}; set data.normalise to "
        "\"z_score\" or \"min_max\", or data.cache_type to \"i16\" or \"f32\"",
        kLargestHalf, *large);
  }
  for (const float value : x) *to++ = Fp16(value);
}

/// x = low + step q, q in [0, 65535].
struct Steps {
  std::vector<float> low, step;  // per channel
};

Steps steps_of(std::span<const float> x, std::size_t channels) {
  Steps steps{std::vector<float>(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(channels)), {}};
  std::vector<float> high = steps.low;
  for (std::size_t at = 0; at < x.size(); at += channels) {
    for (std::size_t c = 0; c < channels; ++c) {
      steps.low[c] = std::min(steps.low[c], x[at + c]);
      high[c] = std::max(high[c], x[at + c]);
    }
  }
  for (std::size_t c = 0; c < channels; ++c) steps.step.push_back((high[c] - steps.low[c]) / 65535.0F);
  return steps;
}

void encode_steps(const Steps& steps, std::span<const float> x, std::uint16_t* to) {
  const std::size_t channels = steps.low.size();
  std::vector<float> inverse(channels);
  std::ranges::transform(steps.step, inverse.begin(), [](float step) { return step > 0 ? 1 / step : 0; });
  for (std::size_t at = 0; at < x.size(); at += channels) {
    for (std::size_t c = 0; c < channels; ++c) {
      const float q = std::clamp((x[at + c] - steps.low[c]) * inverse[c] + 0.5F, 0.0F, 65535.0F);
      *to++ = static_cast<std::uint16_t>(static_cast<std::int32_t>(q));
    }
  }
}

}  // namespace

std::size_t coded_bytes(CacheType type, std::size_t n, std::size_t channels) {
  if (type == CacheType::kF32) return 4 * n;
  return 2 * n + (type == CacheType::kI16 ? 2 * channels * sizeof(float) : 0);
}

void encode(CacheType type, std::span<const float> x, std::size_t channels, std::span<std::byte> coded) {
  if (x.empty()) return;
  if (type == CacheType::kF32) {
    std::memcpy(coded.data(), x.data(), x.size_bytes());
  } else if (type == CacheType::kF16) {
    encode_half(x, reinterpret_cast<Fp16*>(coded.data()));
  } else {
    const Steps steps = steps_of(x, channels);
    const std::size_t bytes = channels * sizeof(float);
    std::memcpy(coded.data(), steps.low.data(), bytes);
    std::memcpy(coded.data() + bytes, steps.step.data(), bytes);
    encode_steps(steps, x, reinterpret_cast<std::uint16_t*>(coded.data() + 2 * bytes));
  }
}

void decode(CacheType type, std::span<const std::byte> coded, std::size_t channels, std::span<float> x) {
  if (type == CacheType::kF32) {
    std::memcpy(x.data(), coded.data(), x.size_bytes());
  } else if (type == CacheType::kF16) {
    const auto* const from = reinterpret_cast<const Fp16*>(coded.data());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(from[i]);
  } else {
    const auto* const low = reinterpret_cast<const float*>(coded.data());
    const float* const step = low + channels;
    const auto* const from = reinterpret_cast<const std::uint16_t*>(step + channels);
    for (std::size_t at = 0; at < x.size(); at += channels) {
      for (std::size_t c = 0; c < channels; ++c) {
        x[at + c] = low[c] + step[c] * static_cast<float>(static_cast<std::int32_t>(from[at + c]));
      }
    }
  }
}

}  // namespace petaflow::climate
