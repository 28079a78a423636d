// The random numbers of dropout: 16 bits for each channel, so that a Philox block of 128 bits serves 8 of them.
#pragma once

#include <cstdint>

#include "base/random.hpp"
#include "kernels/lanes.hpp"

#if PETAFLOW_NATIVE_LANES && defined(__AVX512BW__) && defined(__BMI2__)
#define PETAFLOW_VECTOR_DRAWS 1
#else
#define PETAFLOW_VECTOR_DRAWS 0
#endif

namespace petaflow::inline PETAFLOW_LANES {

inline constexpr int kDrawsPerBlock = 8;
#if PETAFLOW_VECTOR_DRAWS
/// A word of eight counters, each in the lower half of 64 bits; what is above is ignored.
typedef std::uint64_t CounterWords __attribute__((vector_size(64)));  // NOLINT: only a typedef takes the attribute
#endif

/// Bit i of the result: draw i of the blocks stream(index, first), stream(index, first + 1), ... is at least `least`.
/// Bits behind those of kBlocks blocks are unspecified.
/// @param least  at most 65535
template <int kBlocks>
KOKKOS_INLINE_FUNCTION std::uint64_t draws_from(const RandomStream& stream, std::uint64_t index, std::uint64_t first,
                                                std::uint32_t least) {
  static_assert(kBlocks * kDrawsPerBlock <= 64);
#if PETAFLOW_VECTOR_DRAWS
  const auto product = [](const CounterWords& x, std::uint32_t factor) {
    return __builtin_bit_cast(CounterWords,
                              _mm512_maskz_mul_epu32(0xFF, __builtin_bit_cast(__m512i, x),
                                                     __builtin_bit_cast(__m512i, CounterWords{} + factor)));
  };
  const CounterWords block = CounterWords{0, 1, 2, 3, 4, 5, 6, 7} + first;
  CounterWords a = CounterWords{} + index, b = CounterWords{} + (index >> 32), c = block, d = block >> 32;
  std::uint32_t key0 = stream.key0, key1 = stream.key1;
#pragma GCC unroll 10
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const CounterWords p0 = product(a, kPhiloxFactor0), p1 = product(c, kPhiloxFactor1);
    a = (p1 >> 32) ^ b ^ key0;
    b = p1;
    c = (p0 >> 32) ^ d ^ key1;
    d = p0;
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
  const auto at_least = [least](const CounterWords& low, const CounterWords& high) {
    const CounterWords draws = (low & 0xFFFFFFFFU) | (high << 32);
    return _mm512_cmpge_epu16_mask(__builtin_bit_cast(__m512i, draws),
                                   _mm512_set1_epi16(static_cast<std::int16_t>(least)));
  };
  constexpr std::uint64_t kFirstFour = 0x0F0F0F0F0F0F0F0FU;  // of the eight of each block
  return _pdep_u64(at_least(a, b), kFirstFour) | _pdep_u64(at_least(c, d), ~kFirstFour);
#else
  // Blocks side by side, so that they vectorise.
  std::uint32_t words[4][kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t block = first + static_cast<std::uint64_t>(i);
    words[0][i] = static_cast<std::uint32_t>(index);
    words[1][i] = static_cast<std::uint32_t>(index >> 32);
    words[2][i] = static_cast<std::uint32_t>(block);
    words[3][i] = static_cast<std::uint32_t>(block >> 32);
  }
  philox_rounds<kBlocks>(words[0], words[1], words[2], words[3], stream.key0, stream.key1);
  std::uint64_t bits = 0;
  for (int block = 0; block < kBlocks; ++block) {
    for (int i = 0; i < kDrawsPerBlock; ++i) {
      const std::uint32_t draw = (words[i / 2][block] >> (16 * (i % 2))) & 0xFFFFU;
      bits |= std::uint64_t{draw >= least} << (block * kDrawsPerBlock + i);
    }
  }
  return bits;
#endif
}

}  // namespace petaflow::inline PETAFLOW_LANES
