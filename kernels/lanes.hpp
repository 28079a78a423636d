// A short vector of f32 that fills one register, and the register blocking that goes with it.  Portable C++ (the vector
// extension of GCC and Clang on the host, an array on devices), no intrinsics: the compiler chooses the instructions.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/dtype.hpp"

#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__) && !defined(__SYCL_DEVICE_ONLY__)
#define PETAFLOW_NATIVE_LANES 1
#else
#define PETAFLOW_NATIVE_LANES 0
#endif

namespace petaflow::lanes {

#if !PETAFLOW_NATIVE_LANES
inline constexpr int kLanes = 4;  // one 16-byte load per thread
inline constexpr int kVectors = 1, kPoints = 4;
#elif defined(__AVX512F__)
inline constexpr int kLanes = 16;
inline constexpr int kVectors = 2, kPoints = 12;  // 24 of 32 registers accumulate
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
inline constexpr int kVectors = 2, kPoints = 6;  // 12 of 16
#else
inline constexpr int kLanes = 4;
inline constexpr int kVectors = 2, kPoints = 6;
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
using Floats = float __attribute__((vector_size(kLanes * 4)));
using Words = std::uint32_t __attribute__((vector_size(kLanes * 4)));
using HalfWords = std::uint16_t __attribute__((vector_size(kLanes * 2)));
#else
struct Floats {
  float lane[kLanes];
  KOKKOS_INLINE_FUNCTION float& operator[](int i) { return lane[i]; }
  KOKKOS_INLINE_FUNCTION float operator[](int i) const { return lane[i]; }
};
#endif

KOKKOS_INLINE_FUNCTION void load(const float* from, Floats& to) { std::memcpy(&to, from, sizeof to); }

KOKKOS_INLINE_FUNCTION void load(const Bf16* from, Floats& to) {
#if PETAFLOW_NATIVE_LANES
  HalfWords half;
  std::memcpy(&half, from, sizeof half);
  const Words word = __builtin_convertvector(half, Words) << 16;
  std::memcpy(&to, &word, sizeof to);
#else
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<float>(from[i]);
#endif
}

/// The first `count` lanes from memory, zeros behind.
template <class T>
KOKKOS_INLINE_FUNCTION void load_part(const T* from, int count, Floats& to) {
  T part[kLanes] = {};
  for (int i = 0; i < count; ++i) part[i] = from[i];
  load(part, to);
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

/// Writes the first `count` lanes, rounded to T.
template <class T>
KOKKOS_INLINE_FUNCTION void store(T* to, int count, const Floats& value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (count == kLanes) {
      std::memcpy(to, &value, sizeof value);
      return;
    }
  }
  for (int i = 0; i < count; ++i) to[i] = static_cast<T>(value[i]);
}

}  // namespace petaflow::lanes
