// Sums of batch norm over pixels, in f64: each part of the pixels has its own, which are then added in the order of the
// parts, so that they depend on the number of parts only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/context.hpp"
#include "base/label.hpp"
#include "base/tensor.hpp"
#include "kernels/epilogue.hpp"
#include "kernels/lanes.hpp"
#include "kernels/launch.hpp"

namespace petaflow::batch_norm {

// ---- f64 lanes: as many as fill a register ----

#if PETAFLOW_NATIVE_LANES
inline constexpr int kWide = lanes::kLanes / 2;
using Wide = double __attribute__((vector_size(kWide * 8)));
#else
inline constexpr int kWide = lanes::kLanes;
struct Wide {
  double lane[kWide];
  KOKKOS_INLINE_FUNCTION double& operator[](int i) { return lane[i]; }
  KOKKOS_INLINE_FUNCTION double operator[](int i) const { return lane[i]; }
};
#endif

KOKKOS_INLINE_FUNCTION void load(const double* from, Wide& to) {
#if PETAFLOW_NATIVE_LANES
  std::memcpy(&to, from, sizeof to);
#else  // of nvcc's memcpy come loads of single bytes
  for (int i = 0; i < kWide; ++i) to[i] = from[i];
#endif
}
KOKKOS_INLINE_FUNCTION void store(double* to, const Wide& from) {
#if PETAFLOW_NATIVE_LANES
  std::memcpy(to, &from, sizeof from);
#else
  for (int i = 0; i < kWide; ++i) to[i] = from[i];
#endif
}
KOKKOS_INLINE_FUNCTION void load(const float* from, Wide& to) {
#if PETAFLOW_NATIVE_LANES
  // One instruction; __builtin_convertvector becomes five with GCC 12.
  for (int i = 0; i < kWide; ++i) to[i] = static_cast<double>(from[i]);
#else
  lanes::Floats values;
  lanes::load(from, values);
  for (int i = 0; i < kWide; ++i) to[i] = static_cast<double>(values[i]);
#endif
}
KOKKOS_INLINE_FUNCTION void load(const Bf16* from, Wide& to) {
#if PETAFLOW_NATIVE_LANES && defined(__AVX512F__)
  constexpr __mmask8 kEvery = 0xFF;  // GCC 12 warns of an undefined register inside the intrinsics without a mask
  const __m256i half = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  const __m256 word = _mm256_castsi256_ps(_mm256_slli_epi32(half, 16));
  to = __builtin_bit_cast(Wide, _mm512_maskz_cvtps_pd(kEvery, word));
#elif PETAFLOW_NATIVE_LANES
  for (int i = 0; i < kWide; ++i) to[i] = static_cast<double>(static_cast<float>(from[i]));
#else
  lanes::Floats values;
  lanes::load(from, values);
  for (int i = 0; i < kWide; ++i) to[i] = static_cast<double>(values[i]);
#endif
}

#if !PETAFLOW_NATIVE_LANES
KOKKOS_INLINE_FUNCTION void load(const Fp16* from, Wide& to) {
  for (int i = 0; i < kWide; ++i) to[i] = static_cast<double>(static_cast<float>(from[i]));
}
#endif

/// Loads numbers as f64, those whose bit is 0 multiplied by `slope` first.
template <class T>
KOKKOS_INLINE_FUNCTION void load_signed(const T* from, std::uint32_t bits, float slope, Wide& to) {
#if PETAFLOW_NATIVE_LANES && defined(__AVX512F__)
  constexpr __mmask8 kEvery = 0xFF;
  __m256 values;
  if constexpr (std::is_same_v<T, float>) {
    values = _mm256_loadu_ps(from);
  } else {
    const __m256i half = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    values = _mm256_castsi256_ps(_mm256_slli_epi32(half, 16));
  }
  const __m256 sloped = _mm256_mul_ps(values, _mm256_set1_ps(slope));
  // Selected while converting: on Knights Landing only registers of 512 bits have masks.
  const __m512d others = _mm512_maskz_cvtps_pd(kEvery, sloped);
  to = __builtin_bit_cast(Wide, _mm512_mask_cvtps_pd(others, static_cast<__mmask8>(bits), values));
#elif PETAFLOW_NATIVE_LANES
  for (int i = 0; i < kWide; ++i) {
    const auto value = static_cast<float>(from[i]);
    to[i] = static_cast<double>((bits >> i & 1) != 0 ? value : value * slope);
  }
#else
  lanes::Floats values;
  lanes::load(from, values);
  for (int i = 0; i < kWide; ++i) to[i] = static_cast<double>((bits >> i & 1) != 0 ? values[i] : values[i] * slope);
#endif
}

/// first += a, second += a (b - centre).
KOKKOS_INLINE_FUNCTION void add_pair(const Wide& a, const Wide& b, const Wide& centre, Wide& first, Wide& second) {
#if PETAFLOW_NATIVE_LANES
  first += a;
  second += a * (b - centre);
#else
  for (int i = 0; i < kWide; ++i) {
    first[i] += a[i];
    second[i] += a[i] * (b[i] - centre[i]);
  }
#endif
}

// ---- Sums ----

/// Parts of a tensor, each with its own sums.
inline std::int64_t parts_of(int host_parts, const Shape& x) {
  constexpr std::int64_t kMost = 8192, kPixels = 16;  // on a device
  return kOnHost ? host_parts : std::clamp<std::int64_t>(x.n * x.pixels() / kPixels, 1, kMost);
}
/// Parts that a device adds in a first step, before it adds their sums; 0: there is one step.
inline constexpr std::int64_t kSecondParts = kOnHost ? 0 : 64;

KOKKOS_INLINE_FUNCTION bool is_real(const StepState* step, std::int64_t slot) { return step->sample[slot] >= 0; }

KOKKOS_INLINE_FUNCTION std::int64_t real_samples(const StepState* step, std::int64_t slots) {
  std::int64_t count = 0;
  for (std::int64_t n = 0; n < slots; ++n) count += is_real(step, n) ? 1 : 0;
  return count;
}

/// Pixels `stride` elements apart, counted over all samples; the first one of `data` is `first`.
template <class T>
struct Pixels {
  T* data;
  std::int64_t stride, first = 0;

  KOKKOS_INLINE_FUNCTION T* operator()(std::int64_t pixel) const { return data + (pixel - first) * stride; }
};

template <class T>
Pixels<T> pixels_of(const Tensor& tensor) {
  return {static_cast<T*>(tensor.data), tensor.pixel_stride};
}

/// Signs of what an activation took, a bit for each channel, whole bytes for each pixel: gradients of those that were
/// not positive are multiplied by the slope.  Without data there was none.
struct Signs {
  const std::uint8_t* data = nullptr;
  std::int64_t channels = 0;  // a multiple of 8
  float slope = 1;

  /// Signs of `count` channels, up to 32, from c on, which is a multiple of their number or of 8.
  KOKKOS_INLINE_FUNCTION std::uint32_t operator()(std::int64_t pixel, std::int64_t c, int count) const {
    const std::uint8_t* from = data + (pixel * channels + c) / 8;
    std::uint32_t bits = *from;
    for (int byte = 1; 8 * byte < count; ++byte) bits |= static_cast<std::uint32_t>(from[byte]) << (8 * byte);
    return bits >> (c % 8);
  }
};

KOKKOS_INLINE_FUNCTION Interval part_of(std::int64_t all, std::int64_t part, std::int64_t parts) {
  return {all * part / parts, all * (part + 1) / parts};
}
KOKKOS_INLINE_FUNCTION Interval common(const Interval& a, const Interval& b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

/// [sum a (C), sum a (b - centre) (C)] of each part, a through the signs.  kSame: b is a, the centre 0, without signs.
template <bool kSame, class A, class B>
struct SumPart {
  std::int64_t slots, pixels, channels, parts;  // pixels of a slot
  const StepState* step;
  Pixels<A> a;
  Pixels<B> b;
  const float* centre;
  double* sums;  // (parts, 2 C)
  Signs signs = {};

  // Registers side by side: all channels of a block in one go where there are 64 or fewer, by twice as many chains of
  // additions, of which four hide their latency.
  static constexpr int kGroup = !kOnHost ? 1 : lanes::kRegisters >= 32 ? 8 : 2;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    // All channels of a part on the host, a few of them on a device.
    const std::int64_t groups = kOnHost ? 1 : (channels + kWide - 1) / kWide, part = item / groups;
    const std::int64_t c0 = kOnHost ? 0 : item % groups * kWide;
    const std::int64_t c1 = kOnHost || c0 + kWide > channels ? channels : c0 + kWide;
    double* sum = sums + part * 2 * channels;
    for (std::int64_t c = c0; c < c1; ++c) sum[c] = sum[channels + c] = 0;
    add_real(part_of(slots * pixels, part, parts), c0, c1, sum);
  }

  /// Adds the pixels of `range` that lie in real slots.
  KOKKOS_INLINE_FUNCTION void add_real(const Interval& range, std::int64_t c0, std::int64_t c1, double* sum) const {
    for (std::int64_t n = range.begin / pixels; n * pixels < range.end; ++n) {
      if (!is_real(step, n)) continue;
      const Interval own = common(range, {n * pixels, (n + 1) * pixels});
      // Blocks stay in the L1d cache while the channels are gone through.
      const std::int64_t block = kOnHost ? 1 + 4096 / channels : own.size();
      for (std::int64_t p = own.begin; p < own.end; p += block) {
        add(p, p + block < own.end ? p + block : own.end, c0, c1, sum);
      }
    }
  }

  std::int64_t items() const { return kOnHost ? parts : parts * ((channels + kWide - 1) / kWide); }

 private:
  KOKKOS_INLINE_FUNCTION void add(std::int64_t begin, std::int64_t end, std::int64_t c0, std::int64_t c1,
                                  double* sum) const {
    kSame || signs.data == nullptr ? add_channels<false>(begin, end, c0, c1, sum)
                                   : add_channels<true>(begin, end, c0, c1, sum);
  }
  template <bool kSigned>
  KOKKOS_INLINE_FUNCTION void add_channels(std::int64_t begin, std::int64_t end, std::int64_t c0, std::int64_t c1,
                                           double* sum) const {
    std::int64_t c = c0;
    for (; c + kGroup * kWide <= c1; c += kGroup * kWide) add_registers<kGroup, kSigned>(begin, end, c, sum);
    for (; kGroup > 2 && c + 2 * kWide <= c1; c += 2 * kWide) add_registers<2, kSigned>(begin, end, c, sum);
    for (; c + kWide <= c1; c += kWide) add_registers<1, kSigned>(begin, end, c, sum);
    for (; c < c1; ++c) {  // none where there are signs
      double first = sum[c], second = sum[channels + c];
      const double middle = kSame ? 0 : static_cast<double>(centre[c]);
      for (std::int64_t p = begin; p < end; ++p) {
        const double value = number(a(p)[c]);
        first += value;
        second += value * (kSame ? value : number(b(p)[c]) - middle);
      }
      sum[c] = first;
      sum[channels + c] = second;
    }
  }
  template <class T>
  static KOKKOS_INLINE_FUNCTION double number(T value) {
    return static_cast<double>(static_cast<float>(value));
  }

  template <int kCount, bool kSigned>
  KOKKOS_INLINE_FUNCTION void add_registers(std::int64_t begin, std::int64_t end, std::int64_t c, double* sum) const {
    Wide first[kCount], second[kCount], middle[kCount];
    lanes::unrolled<kCount>([&](auto r) {
      load(sum + c + r * kWide, first[r]);
      load(sum + channels + c + r * kWide, second[r]);
      if constexpr (kSame) {
        middle[r] = Wide{};
      } else {
        load(centre + c + r * kWide, middle[r]);
      }
    });
    for (std::int64_t p = begin; p < end; ++p) {
      const A* const from = a(p) + c;
      const B* const from_b = b(p) + c;
      lanes::unrolled<kCount>([&](auto r) {
        Wide value, other;
        if constexpr (kSigned) {
          load_signed(from + r * kWide, signs(p, c + r * kWide, kWide), signs.slope, value);
        } else {
          load(from + r * kWide, value);
        }
        if constexpr (kSame) {
          other = value;
        } else {
          load(from_b + r * kWide, other);
        }
        add_pair(value, other, middle[r], first[r], second[r]);
      });
    }
    lanes::unrolled<kCount>([&](auto r) {
      store(sum + c + r * kWide, first[r]);
      store(sum + channels + c + r * kWide, second[r]);
    });
  }
};

/// (parts, columns) -> (fewer, columns): each is the sum of neighbours.
struct AddParts {
  std::int64_t columns, parts, fewer;
  const double* sums;
  double* to;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t out = item / columns, column = item % columns;
    double total = 0;
    for (std::int64_t part = parts * out / fewer; part < parts * (out + 1) / fewer; ++part) {
      total += sums[part * columns + column];
    }
    to[item] = total;
  }
};

/// sums = those of all parts, and the number of real pixels.
inline void add_parts(const Context& context, const Shape& shape, std::int64_t parts, double* partial, double* sums) {
  const std::int64_t columns = 2 * shape.c;
  const std::string& add = "petaflow::batch_norm::add_parts[kokkos]"_label;
  if (parts > kSecondParts && kSecondParts > 0) {
    double* second = partial + parts * columns;
    launch(context, add, kSecondParts * columns, AddParts{columns, parts, kSecondParts, partial, second});
    launch(context, add, columns, AddParts{columns, kSecondParts, 1, second, sums});
  } else {
    launch(context, add, columns, AddParts{columns, parts, 1, partial, sums});
  }
  const StepState* step = context.step;
  const std::int64_t n = shape.n, pixels = shape.pixels();
  launch(
      context, "petaflow::batch_norm::count[kokkos]"_label, 1,
      KOKKOS_LAMBDA(std::int64_t) { sums[columns] = static_cast<double>(real_samples(step, n) * pixels); });
}

inline std::size_t partial_bytes(std::int64_t parts, std::int64_t channels) {
  return (static_cast<std::size_t>((parts + kSecondParts) * 2 * channels) * sizeof(double) + 63) / 64 * 64;
}

}  // namespace petaflow::batch_norm
