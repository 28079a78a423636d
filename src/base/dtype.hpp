// Element types of tensors.  Those of 16 bits are storage types: kernels compute in f32; only inputs are i16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <Kokkos_Macros.hpp>
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace petaflow {

enum class DType : std::uint8_t { kF32, kBf16, kFp16, kI16 };

constexpr std::size_t size_of(DType type) { return type == DType::kF32 ? 4 : 2; }
constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::kF32:
      return "f32";
    case DType::kBf16:
      return "bf16";
    case DType::kFp16:
      return "fp16";
    case DType::kI16:
      break;
  }
  return "i16";
}
/// Whether it is a rounded f32.
constexpr bool is_rounded(DType type) { return type == DType::kBf16 || type == DType::kFp16; }

/// Bytes rounded up to whole lines of the cache, on which the parts of a scratch begin.
constexpr std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

KOKKOS_INLINE_FUNCTION std::uint32_t word_of(float value) {
  std::uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}
KOKKOS_INLINE_FUNCTION float float_of(std::uint32_t word) {
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// The upper half of an f32; conversion rounds to nearest even and keeps NaN.
struct Bf16 {
  std::uint16_t bits = 0;

  Bf16() = default;
  KOKKOS_INLINE_FUNCTION explicit Bf16(float value) {
#ifdef __CUDA_ARCH__  // one instruction, from the A100 on
    bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
    std::uint32_t word = word_of(value);
    const bool is_nan = (word & 0x7FFFFFFFU) > 0x7F800000U;
    word = is_nan ? word | 0x00400000U : word + 0x7FFFU + ((word >> 16) & 1U);
    bits = static_cast<std::uint16_t>(word >> 16);
#endif
  }
  KOKKOS_INLINE_FUNCTION explicit operator float() const { return float_of(std::uint32_t{bits} << 16); }
};

/// IEEE 754 binary16; conversion rounds to nearest even, to infinity from 65,520 on, and keeps NaN.  Without branches,
/// so that compilers make vector instructions of loops.
struct Fp16 {
  std::uint16_t bits = 0;

  Fp16() = default;
  KOKKOS_INLINE_FUNCTION explicit Fp16(float value) {
#ifdef __CUDA_ARCH__
    bits = __half_as_ushort(__float2half_rn(value));
#else
    const std::uint32_t word = word_of(value), size = word & 0x7FFFFFFFU;
    // Exponents differ by 112.  Below the normal numbers, adding 0.5 shifts the last bits out, rounded by the hardware.
    const std::uint32_t normal = (size + 0xFFFU + (size >> 13 & 1U) - 0x38000000U) >> 13;
    const std::uint32_t small = word_of(float_of(size) + 0.5F) - 0x3F000000U;
    const std::uint32_t special = size > 0x7F800000U ? 0x7E00U : 0x7C00U;  // from 65,536 on
    const std::uint32_t half = size >= 0x47800000U ? special : size < 0x38800000U ? small : normal;
    bits = static_cast<std::uint16_t>((word >> 16 & 0x8000U) | half);
#endif
  }
  KOKKOS_INLINE_FUNCTION explicit operator float() const {
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(bits));
#else
    const std::uint32_t sign = std::uint32_t{bits} << 16 & 0x80000000U, size = bits & 0x7FFFU;
    const std::uint32_t normal = (size << 13) + 0x38000000U, special = 0x7F800000U | (size << 13);
    const std::uint32_t small = word_of(static_cast<float>(size) * 0x1p-24F);
    return float_of(sign | (size >= 0x7C00U ? special : size < 0x0400U ? small : normal));
#endif
  }
};

template <class T>
inline constexpr DType kDTypeOf = DType::kF32;
template <>
inline constexpr DType kDTypeOf<Bf16> = DType::kBf16;
template <>
inline constexpr DType kDTypeOf<Fp16> = DType::kFp16;
template <>
inline constexpr DType kDTypeOf<std::int16_t> = DType::kI16;

}  // namespace petaflow
