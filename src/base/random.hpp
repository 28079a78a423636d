// Counter-based random numbers: a number depends on (seed, purpose, ids, index) alone, never on threads, ranks or
// order. Generator: Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>

#include <Kokkos_Macros.hpp>

namespace petaflow {

/// Purpose of a stream of random numbers; streams of different purpose are independent.
enum class RandomPurpose : std::uint32_t { kInit = 1, kShuffle, kDropout, kAugment, kGenerate, kBootstrap };

struct RandomBlock {
  std::uint32_t word[4];
};

inline constexpr int kPhiloxRounds = 10;
inline constexpr std::uint32_t kPhiloxFactor0 = 0xD2511F53U, kPhiloxFactor1 = 0xCD9E8D57U,
                               kPhiloxKeyStep0 = 0x9E3779B9U, kPhiloxKeyStep1 = 0xBB67AE85U;

/// The rounds of Philox4x32 on kLanes counters (a, b, c, d) side by side, so that compilers vectorise them.
template <int kLanes>
KOKKOS_INLINE_FUNCTION void philox_rounds(std::uint32_t (&a)[kLanes], std::uint32_t (&b)[kLanes],
                                          std::uint32_t (&c)[kLanes], std::uint32_t (&d)[kLanes], std::uint32_t k0,
                                          std::uint32_t k1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t p0 = std::uint64_t{kPhiloxFactor0} * a[lane], p1 = std::uint64_t{kPhiloxFactor1} * c[lane];
      a[lane] = static_cast<std::uint32_t>(p1 >> 32) ^ b[lane] ^ k0;
      b[lane] = static_cast<std::uint32_t>(p1);
      c[lane] = static_cast<std::uint32_t>(p0 >> 32) ^ d[lane] ^ k1;
      d[lane] = static_cast<std::uint32_t>(p0);
    }
    k0 += kPhiloxKeyStep0;
    k1 += kPhiloxKeyStep1;
  }
}

/// A keyed family of random blocks; cheap to copy into kernels.
struct RandomStream {
  std::uint32_t key0 = 0, key1 = 0;

  /// The 128 bits that belong to (index, block).
  KOKKOS_INLINE_FUNCTION RandomBlock operator()(std::uint64_t index, std::uint64_t block) const {
    std::uint32_t a[1] = {static_cast<std::uint32_t>(index)}, b[1] = {static_cast<std::uint32_t>(index >> 32)};
    std::uint32_t c[1] = {static_cast<std::uint32_t>(block)}, d[1] = {static_cast<std::uint32_t>(block >> 32)};
    philox_rounds<1>(a, b, c, d, key0, key1);
    return {{a[0], b[0], c[0], d[0]}};
  }
};

/// The stream of a purpose; a and b are further ids (epoch, layer), mixed with splitmix64.
KOKKOS_INLINE_FUNCTION RandomStream random_stream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t a = 0,
                                                  std::uint64_t b = 0) {
  std::uint64_t key = seed;
  for (const std::uint64_t id : {std::uint64_t{0}, static_cast<std::uint64_t>(purpose), a, b}) {
    std::uint64_t z = (key ^ id) + 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    key = z ^ (z >> 31);
  }
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

/// Numbers drawn one after the other from one (stream, index): for host code with a varying number of draws.
class RandomSequence {
 public:
  RandomSequence(RandomStream stream, std::uint64_t index) : stream_(stream), index_(index) {}

  std::uint32_t bits() {
    if (used_ == 4) {
      block_ = stream_(index_, next_++);
      used_ = 0;
    }
    return block_.word[used_++];
  }
  /// Uniform in [0, 1) with 53 random bits.
  double uniform() {
    const std::uint64_t high = bits(), low = bits();
    return static_cast<double>((high << 21) ^ (low >> 11)) * 0x1.0p-53;
  }
  /// Uniform integer in [0, n), n < 2^32 (multiply-shift; bias below 2^-32 n).
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((std::uint64_t{bits()} * n) >> 32); }
  /// Standard normal (Box-Muller, one of the pair).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  /// Exponential with mean 1.
  double exponential() { return -std::log(1.0 - uniform()); }

 private:
  RandomStream stream_;
  std::uint64_t index_, next_ = 0;
  RandomBlock block_{};
  int used_ = 4;
};

}  // namespace petaflow
