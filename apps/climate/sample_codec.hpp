// Numbers of scaled samples in 16 bits, for copies on a disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace petaflow::climate {

enum class CacheType : std::uint8_t {
  kF32,
  kF16,  // IEEE half precision: within x / 2048, or 2^-25, of x; up to 65504
  kI16   // 65,536 steps from the least to the largest number of each channel: within half a step
};

/// Bytes of n numbers, of which `channels` are beside each other.
std::size_t coded_bytes(CacheType type, std::size_t n, std::size_t channels);
/// @param x      (n / channels, channels), finite
/// @param coded  coded_bytes() of them: with i16 least number and step of each channel, f32, in front of the others
/// Throws a user error that names data.cache_type where a number is too large for f16.
void encode(CacheType type, std::span<const float> x, std::size_t channels, std::span<std::byte> coded);
void decode(CacheType type, std::span<const std::byte> coded, std::size_t channels, std::span<float> x);

}  // namespace petaflow::climate
