// A pseudo-random order of n things that needs no memory: entry i is computed from the key, on any rank, in any order.
// A Feistel network with Philox as its round function, on the smallest power of 4 that holds n, walked until it lands
// below n (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
#pragma once

#include <bit>
#include <cstdint>

#include "base/random.hpp"

namespace petaflow {

class Permutation {
 public:
  /// n >= 1
  Permutation(std::int64_t n, RandomStream stream)
      : n_(static_cast<std::uint64_t>(n)), half_bits_((std::bit_width(n_ - 1) + 1) / 2), stream_(stream) {}

  /// The thing at place i, 0 <= i < n.
  std::int64_t operator()(std::int64_t i) const {
    auto x = static_cast<std::uint64_t>(i);
    do {
      x = encrypt(x);
    } while (x >= n_);
    return static_cast<std::int64_t>(x);
  }

 private:
  std::uint64_t encrypt(std::uint64_t x) const {
    constexpr std::uint64_t kRounds = 8;
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = x >> half_bits_, right = x & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (stream_(right, round).word[0] & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  std::uint64_t n_;
  int half_bits_;
  RandomStream stream_;
};

}  // namespace petaflow
