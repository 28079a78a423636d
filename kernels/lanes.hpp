// A short vector of f32 that fills one register, and the register blocking that goes with it.  Portable C++ (the vector
// extension of GCC and Clang on the host, an array on devices); AVX-512's instructions where they say what that cannot.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/dtype.hpp"
#include "kernels/at_once.hpp"

#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__) && !defined(__SYCL_DEVICE_ONLY__) && \
    !defined(PETAFLOW_GUARDED)
#define PETAFLOW_NATIVE_LANES 1
#else
#define PETAFLOW_NATIVE_LANES 0
#endif
#if PETAFLOW_NATIVE_LANES && defined(__AVX512F__)
#include <immintrin.h>
#endif

// Programs may hold kernels of several instruction levels: each has names of its own.
#if !PETAFLOW_NATIVE_LANES
#define PETAFLOW_LANES devices
#elif defined(__AVX512BF16__)
#define PETAFLOW_LANES avx512_bf16
#elif defined(__AVX512F__)
#define PETAFLOW_LANES avx512
#elif defined(__AVX__)
#define PETAFLOW_LANES avx
#else
#define PETAFLOW_LANES least
#endif

namespace petaflow::lanes::inline PETAFLOW_LANES {

#if !PETAFLOW_NATIVE_LANES
inline constexpr int kLanes = 4;  // one 16-byte load per thread
inline constexpr int kVectors = 1, kPoints = 4, kRegisters = 16;
#elif defined(__AVX512F__)
inline constexpr int kLanes = 16;
inline constexpr int kVectors = 2, kPoints = 12, kRegisters = 32;  // 24 of them accumulate
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
inline constexpr int kVectors = 2, kPoints = 6, kRegisters = 16;  // 12 of them
#else
inline constexpr int kLanes = 4;
inline constexpr int kVectors = 2, kPoints = 6, kRegisters = 16;
#endif

/// True where one instruction multiplies and adds pairs of bf16.
#if PETAFLOW_NATIVE_LANES && defined(__AVX512BF16__)
inline constexpr bool kMultipliesPairs = true;
#else
inline constexpr bool kMultipliesPairs = false;
#endif

/// Calls f(integral_constant<0>) ... f(integral_constant<count - 1>), so that indices are constants from the beginning.
template <class F, int... kIndex>
KOKKOS_FORCEINLINE_FUNCTION void unrolled(const F& f, std::integer_sequence<int, kIndex...>) {
  (f(std::integral_constant<int, kIndex>{}), ...);
}
template <int kCount, class F>
KOKKOS_FORCEINLINE_FUNCTION void unrolled(const F& f) {
  unrolled(f, std::make_integer_sequence<int, kCount>{});
}

/// Channels of a full block: kVectors registers.
inline constexpr int kBlock = kLanes * kVectors;

#if PETAFLOW_NATIVE_LANES
/// A register of kLanes numbers of type E, with the compiler's element-wise operators.
template <class E>
struct Native {
  typedef E Type __attribute__((vector_size(kLanes * sizeof(E))));  // NOLINT: only a typedef takes the attribute
};
using Floats = Native<float>::Type;
using Ints = Native<std::int32_t>::Type;
using Words = Native<std::uint32_t>::Type;
using HalfWords = Native<std::uint16_t>::Type;
#else
/// kLanes numbers of type E with those of the element-wise operators that kernels need; comparisons give 0 or -1.
template <class E>
struct Pack {
  E lane[kLanes];
  KOKKOS_INLINE_FUNCTION E& operator[](int i) { return lane[i]; }
  KOKKOS_INLINE_FUNCTION E operator[](int i) const { return lane[i]; }
};
using Floats = Pack<float>;
using Ints = Pack<std::int32_t>;

/// f(a, b) lane by lane.
template <class R, class E, class F>
KOKKOS_INLINE_FUNCTION Pack<R> each(const Pack<E>& a, const Pack<E>& b, const F& f) {
  Pack<R> result;
  for (int i = 0; i < kLanes; ++i) result[i] = f(a[i], b[i]);
  return result;
}
template <class E>
KOKKOS_INLINE_FUNCTION Pack<E> operator+(const Pack<E>& a, const Pack<E>& b) {
  return each<E>(a, b, [](E x, E y) { return x + y; });
}
template <class E>
KOKKOS_INLINE_FUNCTION Pack<E>& operator+=(Pack<E>& a, const Pack<E>& b) {
  return a = a + b;
}
KOKKOS_INLINE_FUNCTION Floats operator*(const Floats& a, const Floats& b) {
  return each<float>(a, b, [](float x, float y) { return x * y; });
}
KOKKOS_INLINE_FUNCTION Ints operator&(const Ints& a, const Ints& b) {
  return each<std::int32_t>(a, b, [](std::int32_t x, std::int32_t y) { return x & y; });
}
KOKKOS_INLINE_FUNCTION Ints operator|(const Ints& a, const Ints& b) {
  return each<std::int32_t>(a, b, [](std::int32_t x, std::int32_t y) { return x | y; });
}
template <class E>
KOKKOS_INLINE_FUNCTION Ints operator>(const Pack<E>& a, const Pack<E>& b) {
  return each<std::int32_t>(a, b, [](E x, E y) { return x > y ? -1 : 0; });
}
template <class E>
KOKKOS_INLINE_FUNCTION Ints operator==(const Pack<E>& a, const Pack<E>& b) {
  return each<std::int32_t>(a, b, [](E x, E y) { return x == y ? -1 : 0; });
}
template <class E>
KOKKOS_INLINE_FUNCTION Ints operator!=(const Pack<E>& a, const Pack<E>& b) {
  return each<std::int32_t>(a, b, [](E x, E y) { return x != y ? -1 : 0; });
}
#endif

/// The number in every lane.
KOKKOS_INLINE_FUNCTION Floats all(float value) {
#if PETAFLOW_NATIVE_LANES
  return value - Floats{};  // 0 + -0 would be 0
#else
  Floats result;
  for (float& x : result.lane) x = value;
  return result;
#endif
}
KOKKOS_INLINE_FUNCTION Ints all(std::int32_t value) {
#if PETAFLOW_NATIVE_LANES
  return Ints{} + value;
#else
  Ints result;
  for (std::int32_t& x : result.lane) x = value;
  return result;
#endif
}

#if PETAFLOW_NATIVE_LANES && defined(__AVX512F__)
/// Yes or no in each lane: a mask register.  GCC would turn what the vector extension's comparisons give into vectors
/// of 0 and -1 and back.  The functions are explained at the portable ones below.
struct Mask {
  __mmask16 bits;
};
inline Mask operator|(Mask a, Mask b) { return {_kor_mask16(a.bits, b.bits)}; }
inline Mask operator&(Mask a, Mask b) { return {_kand_mask16(a.bits, b.bits)}; }
/// All lanes: GCC 12 warns of an undefined register inside the intrinsics without a mask.
inline constexpr __mmask16 kEvery = 0xFFFF;
inline __m512 native(const Floats& a) { return __builtin_bit_cast(__m512, a); }
inline __m512i native(const Ints& a) { return __builtin_bit_cast(__m512i, a); }

inline Mask greater(const Floats& a, const Floats& b) { return {_mm512_cmp_ps_mask(native(a), native(b), _CMP_GT_OQ)}; }
inline Mask unordered(const Floats& a) { return {_mm512_cmp_ps_mask(native(a), native(a), _CMP_UNORD_Q)}; }
inline Mask any_bit(const Ints& a, std::int32_t bits) {
  return {_mm512_test_epi32_mask(native(a), _mm512_set1_epi32(bits))};
}
inline Mask equal(const Ints& a, std::int32_t b) { return {_mm512_cmpeq_epi32_mask(native(a), _mm512_set1_epi32(b))}; }
inline Floats select(Mask mask, const Floats& a, const Floats& b) {
  return __builtin_bit_cast(Floats, _mm512_mask_mov_ps(native(b), mask.bits, native(a)));
}
inline Ints select(Mask mask, const Ints& a, const Ints& b) {
  return __builtin_bit_cast(Ints, _mm512_mask_mov_epi32(native(b), mask.bits, native(a)));
}
/// Bit i: lane i of the mask.
inline std::uint32_t bits_of(Mask mask) { return mask.bits; }
/// The mask of such bits.
inline Mask mask_of(std::uint32_t bits) { return {static_cast<__mmask16>(bits)}; }
#else
/// Yes (-1) or no (0) in each lane.
struct Mask {
  Ints lanes;
};
KOKKOS_INLINE_FUNCTION Mask operator|(const Mask& a, const Mask& b) { return {a.lanes | b.lanes}; }
KOKKOS_INLINE_FUNCTION Mask operator&(const Mask& a, const Mask& b) { return {a.lanes & b.lanes}; }

/// a > b.
KOKKOS_INLINE_FUNCTION Mask greater(const Floats& a, const Floats& b) { return {a > b}; }
/// True where a is NaN.
KOKKOS_INLINE_FUNCTION Mask unordered(const Floats& a) { return {a != a}; }
/// True where a has one of the bits.
KOKKOS_INLINE_FUNCTION Mask any_bit(const Ints& a, std::int32_t bits) { return {(a & all(bits)) != Ints{}}; }
/// a == b.
KOKKOS_INLINE_FUNCTION Mask equal(const Ints& a, std::int32_t b) { return {a == all(b)}; }
/// a where the mask says yes, b elsewhere.
template <class V>
KOKKOS_INLINE_FUNCTION V select(const Mask& mask, const V& a, const V& b) {
#if PETAFLOW_NATIVE_LANES
  return mask.lanes ? a : b;
#else
  V result;
  for (int i = 0; i < kLanes; ++i) result[i] = mask.lanes[i] != 0 ? a[i] : b[i];
  return result;
#endif
}
/// Bit i: lane i of the mask.
KOKKOS_INLINE_FUNCTION std::uint32_t bits_of(const Mask& mask) {
  std::uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= (static_cast<std::uint32_t>(mask.lanes[i]) & 1U) << i;
  return bits;
}
/// The mask of such bits.
KOKKOS_INLINE_FUNCTION Mask mask_of(std::uint32_t bits) {
  Ints lane_bit;
  for (int i = 0; i < kLanes; ++i) lane_bit[i] = std::int32_t{1} << i;
  return {(all(static_cast<std::int32_t>(bits)) & lane_bit) != Ints{}};
}
#endif

KOKKOS_INLINE_FUNCTION void load(const float* from, Floats& to) {
#if PETAFLOW_NATIVE_LANES
  std::memcpy(&to, from, sizeof to);
#else
  load_at_once<kLanes>(from, to);
#endif
}

// Widening and narrowing by one instruction, where GCC 12 takes several for the compiler's own conversions.
KOKKOS_INLINE_FUNCTION void load(const Bf16* from, Floats& to) {
#if PETAFLOW_NATIVE_LANES && defined(__AVX512F__)
  const __m512i half = _mm512_maskz_cvtepu16_epi32(kEvery, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  to = __builtin_bit_cast(Floats, __builtin_bit_cast(Words, half) << 16);
#elif PETAFLOW_NATIVE_LANES
  HalfWords half;
  std::memcpy(&half, from, sizeof half);
  const Words word = __builtin_convertvector(half, Words) << 16;
  std::memcpy(&to, &word, sizeof to);
#else
  load_at_once<kLanes>(from, to);
#endif
}

#if !PETAFLOW_NATIVE_LANES  // no kernel of the host takes fp16
KOKKOS_INLINE_FUNCTION void load(const Fp16* from, Floats& to) { load_at_once<kLanes>(from, to); }
#endif

/// Small whole numbers.
template <class Code>
KOKKOS_INLINE_FUNCTION void load(const Code* from, Ints& to) {
#if PETAFLOW_NATIVE_LANES && defined(__AVX512F__)
  if constexpr (sizeof(Code) == 1) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    to = __builtin_bit_cast(Ints, _mm512_maskz_cvtepu8_epi32(kEvery, codes));
  } else {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    to = __builtin_bit_cast(Ints, _mm512_maskz_cvtepu16_epi32(kEvery, codes));
  }
#elif PETAFLOW_NATIVE_LANES
  typename Native<Code>::Type codes;
  std::memcpy(&codes, from, sizeof codes);
  to = __builtin_convertvector(codes, Ints);
#else
  load_at_once<kLanes>(from, to);
#endif
}

/// The first `count` lanes from memory, zeros behind.
template <class T, class V>
KOKKOS_INLINE_FUNCTION void load_part(const T* from, int count, V& to) {
#if PETAFLOW_NATIVE_LANES && defined(__AVX512BW__) && defined(__AVX512VL__)
  const auto mask = static_cast<__mmask16>((1U << count) - 1U);
  if constexpr (std::is_same_v<T, float>) {
    to = __builtin_bit_cast(Floats, _mm512_maskz_loadu_ps(mask, from));
    return;
  } else if constexpr (std::is_same_v<T, Bf16>) {
    const __m512i half = _mm512_maskz_cvtepu16_epi32(kEvery, _mm256_maskz_loadu_epi16(mask, from));
    to = __builtin_bit_cast(Floats, __builtin_bit_cast(Words, half) << 16);
    return;
  }
#endif
#if PETAFLOW_NATIVE_LANES
  T part[kLanes] = {};
  for (int i = 0; i < count; ++i) part[i] = from[i];
  load(part, to);
#else
  using Number = std::decay_t<decltype(to[0])>;
  for (int i = 0; i < kLanes; ++i) to[i] = i < count ? static_cast<Number>(from[i]) : Number{};
#endif
}

/// The numbers of an array, which stays in registers where kernels have them there.
KOKKOS_INLINE_FUNCTION Floats floats_of(const float (&numbers)[kLanes]) {
  Floats floats;
#if PETAFLOW_NATIVE_LANES
  load(numbers, floats);
#else
  for (int i = 0; i < kLanes; ++i) floats[i] = numbers[i];
#endif
  return floats;
}

/// sum += scale * value in every lane.
KOKKOS_INLINE_FUNCTION void multiply_add(Floats& sum, float scale, const Floats& value) {
#if PETAFLOW_NATIVE_LANES
  sum += scale * value;
#else
  for (int i = 0; i < kLanes; ++i) sum[i] += scale * value[i];
#endif
}

/// sum += a * b lane by lane.
KOKKOS_INLINE_FUNCTION void multiply_add(Floats& sum, const Floats& a, const Floats& b) {
#if PETAFLOW_NATIVE_LANES
  sum += a * b;
#else
  for (int i = 0; i < kLanes; ++i) sum[i] += a[i] * b[i];
#endif
}

#if PETAFLOW_NATIVE_LANES
/// Rounds to bf16, to the nearest, ties to even; NaN stays NaN.
inline HalfWords round_to_bf16(const Floats& value) {
#if defined(__AVX512BF16__)
  return __builtin_bit_cast(HalfWords, _mm512_cvtneps_pbh(__builtin_bit_cast(__m512, value)));
#else
  const Words word = __builtin_bit_cast(Words, value);
  const Words rounded = word + (0x7FFFU + ((word >> 16) & 1U));
  return __builtin_convertvector((value == value ? rounded : word | 0x00400000U) >> 16, HalfWords);
#endif
}

/// Two bf16 numbers of one operand that are multiplied with two of the other and added: the first in the lower half.
enum class Bf16Pair : std::uint32_t {};

/// kLanes pairs.
struct Pairs {
  Words bits;
};

/// Operand of products of elements of T: f32 itself, or pairs.
template <class T>
using Number = std::conditional_t<std::is_same_v<T, Bf16>, Bf16Pair, float>;
/// Elements of a number.
template <class T>
inline constexpr int kHeld = std::is_same_v<T, Bf16> ? 2 : 1;

/// kLanes numbers.
template <class N>
using Vector = std::conditional_t<std::is_same_v<N, Bf16Pair>, Pairs, Floats>;

inline void load(const Bf16Pair* from, Pairs& to) { std::memcpy(&to.bits, from, sizeof to.bits); }

/// Pairs of the lanes of two registers.
inline Pairs pair(const Floats& first, const Floats& second) {
  return {__builtin_convertvector(round_to_bf16(first), Words) | __builtin_convertvector(round_to_bf16(second), Words)
                                                                     << 16};
}

/// The number of an element of T, or of two of bf16.
template <class T>
Number<T> number(float first, [[maybe_unused]] float second) {
  if constexpr (kHeld<T> == 1) {
    return first;
  } else {
    return Bf16Pair{Bf16(first).bits | static_cast<std::uint32_t>(Bf16(second).bits) << 16};
  }
}

/// Pairs of the elements of two arrays.
inline void pair_elements(const Bf16* first, const Bf16* second, std::int64_t count, Bf16Pair* to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = Bf16Pair{first[i].bits | static_cast<std::uint32_t>(second[i].bits) << 16};
}

/// Writes the first `count` lanes.
inline void store(Bf16Pair* to, int count, const Pairs& value) {
  std::memcpy(to, &value.bits, static_cast<std::size_t>(count) * sizeof *to);
}

/// sum += scale * value, pair by pair, in f32.
inline void multiply_add(Floats& sum, Bf16Pair scale, const Pairs& value) {
  const Words scales = Words{} + static_cast<std::uint32_t>(scale);
#if defined(__AVX512BF16__)
  sum =
      __builtin_bit_cast(Floats, _mm512_dpbf16_ps(__builtin_bit_cast(__m512, sum), __builtin_bit_cast(__m512bh, scales),
                                                  __builtin_bit_cast(__m512bh, value.bits)));
#else
  constexpr std::uint32_t kSecond = 0xFFFF0000U;
  sum += __builtin_bit_cast(Floats, scales << 16) * __builtin_bit_cast(Floats, value.bits << 16);
  sum += __builtin_bit_cast(Floats, scales & kSecond) * __builtin_bit_cast(Floats, value.bits & kSecond);
#endif
}
#endif

/// Writes the first `count` lanes, rounded to T.
template <class T>
KOKKOS_INLINE_FUNCTION void store(T* to, int count, const Floats& value) {
#if PETAFLOW_NATIVE_LANES
  if (count == kLanes) {
    if constexpr (sizeof(T) == sizeof(float)) {
      std::memcpy(to, &value, sizeof value);
    } else {
      const HalfWords half = round_to_bf16(value);
      std::memcpy(static_cast<void*>(to), &half, sizeof half);
    }
    return;
  }
#endif
#if PETAFLOW_NATIVE_LANES && defined(__AVX512BW__) && defined(__AVX512VL__)
  const auto mask = static_cast<__mmask16>((1U << count) - 1U);
  if constexpr (sizeof(T) == sizeof(float)) {
    _mm512_mask_storeu_ps(to, mask, __builtin_bit_cast(__m512, value));
  } else {
    _mm256_mask_storeu_epi16(to, mask, __builtin_bit_cast(__m256i, round_to_bf16(value)));
  }
#elif PETAFLOW_NATIVE_LANES
  for (int i = 0; i < count; ++i) to[i] = static_cast<T>(value[i]);
#else
  store_at_once<kLanes>(to, count, value);
#endif
}

/// Writes the first `count` lanes, which Code can hold.
template <class Code>
KOKKOS_INLINE_FUNCTION void store(Code* to, int count, const Ints& value) {
#if PETAFLOW_NATIVE_LANES
  if (count == kLanes) {
#if defined(__AVX512F__)
    if constexpr (sizeof(Code) == 1) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(kEvery, native(value)));
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(kEvery, native(value)));
    }
#else
    const auto codes = __builtin_convertvector(value, typename Native<Code>::Type);
    std::memcpy(to, &codes, sizeof codes);
#endif
    return;
  }
  for (int i = 0; i < count; ++i) to[i] = static_cast<Code>(value[i]);
#else
  store_at_once<kLanes>(to, count, value);
#endif
}

}  // namespace petaflow::lanes::inline PETAFLOW_LANES
