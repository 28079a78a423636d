// Element types of tensors.  bf16 and i16 are storage types: kernels compute in f32; only inputs are i16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <Kokkos_Macros.hpp>

namespace petaflow {

enum class DType : std::uint8_t { kF32, kBf16, kI16 };

constexpr std::size_t size_of(DType type) { return type == DType::kF32 ? 4 : 2; }
constexpr const char* name_of(DType type) {
  return type == DType::kF32 ? "f32" : type == DType::kBf16 ? "bf16" : "i16";
}

/// Bytes rounded up to whole lines of the cache, on which the parts of a scratch begin.
constexpr std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// The upper half of an f32; conversion rounds to nearest even and keeps NaN.
struct Bf16 {
  std::uint16_t bits = 0;

  Bf16() = default;
  KOKKOS_INLINE_FUNCTION explicit Bf16(float value) {
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    const bool is_nan = (word & 0x7FFFFFFFU) > 0x7F800000U;
    word = is_nan ? word | 0x00400000U : word + 0x7FFFU + ((word >> 16) & 1U);
    bits = static_cast<std::uint16_t>(word >> 16);
  }
  KOKKOS_INLINE_FUNCTION explicit operator float() const {
    const std::uint32_t word = std::uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
};

template <class T>
inline constexpr DType kDTypeOf = DType::kF32;
template <>
inline constexpr DType kDTypeOf<Bf16> = DType::kBf16;
template <>
inline constexpr DType kDTypeOf<std::int16_t> = DType::kI16;

}  // namespace petaflow
