// Half precision against its definition (IEEE 754-2008, binary16), code by code.
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "base/dtype.hpp"

namespace petaflow {
namespace {

constexpr std::uint32_t kInfinity = 0x7C00;

/// The definition, for codes without a sign.
double meaning(std::uint32_t code) {
  const int exponent = static_cast<int>(code >> 10), fraction = static_cast<int>(code & 0x3FFU);
  if (exponent == 31) return fraction == 0 ? INFINITY : NAN;
  return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
}

float value_of(std::uint32_t code) {
  Fp16 half;
  half.bits = static_cast<std::uint16_t>(code);
  return static_cast<float>(half);
}

TEST(Fp16, EveryCodeMeansWhatItDoesAndComesBack) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const double expected = meaning(code & 0x7FFFU);
    const float value = value_of(code);
    ASSERT_EQ(std::signbit(value), code >= 0x8000U) << code;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_TRUE(std::isnan(static_cast<float>(Fp16(value)))) << code;
      continue;
    }
    ASSERT_EQ(std::abs(value), expected) << code;
    ASSERT_EQ(Fp16(value).bits, code);
  }
}

TEST(Fp16, RoundsToNearestEven) {
  constexpr float kMost = std::numeric_limits<float>::infinity();
  for (std::uint32_t code = 0; code < kInfinity; ++code) {
    const double above = code + 1 == kInfinity ? 65536 : meaning(code + 1);
    const auto middle = static_cast<float>((meaning(code) + above) / 2);
    for (const std::uint32_t sign : {0U, 0x8000U}) {
      const auto rounded = [&](float size) { return Fp16(sign == 0 ? size : -size).bits; };
      ASSERT_EQ(rounded(std::nextafter(middle, 0.0F)), sign | code);
      ASSERT_EQ(rounded(middle), sign | (code + (code & 1U)));
      ASSERT_EQ(rounded(std::nextafter(middle, kMost)), sign | (code + 1));
    }
  }
  EXPECT_EQ(Fp16(1e30F).bits, kInfinity);
  EXPECT_EQ(Fp16(-kMost).bits, 0x8000U | kInfinity);
}

}  // namespace
}  // namespace petaflow
