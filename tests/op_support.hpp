// Tools of the operator tests: arrays on both sides, reproducible numbers, comparison with a reference in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "base/context.hpp"
#include "base/dtype.hpp"
#include "base/element.hpp"
#include "device_memory.hpp"

namespace petaflow::testing_support {

/// A number in [-1, 1) with 16 bits, exact in f32; tests/golden/make_operator_golden.py has the same formula.
inline float number(std::uint32_t index, std::uint32_t seed) {
  std::uint32_t h = index * 2654435761U + seed * 2246822519U + 374761393U;
  h = (h ^ (h >> 15)) * 2246822519U;
  h = (h ^ (h >> 13)) * 3266489917U;
  return static_cast<float>((h ^ (h >> 16)) >> 16) / 32768.0F - 1.0F;
}

inline std::vector<float> numbers(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = number(static_cast<std::uint32_t>(i), seed);
  return values;
}

/// Rounds to T and back.
template <class T>
double rounded(float value) {
  return static_cast<double>(static_cast<float>(static_cast<T>(value)));
}

inline double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

/// The largest |found - expected| in units of max(scale, |expected|); infinity where found is not finite.
inline double largest_error(const std::vector<double>& found, const std::vector<double>& expected, double scale) {
  if (found.size() != expected.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(found[i] - expected[i]) / std::max(scale, std::abs(expected[i]));
    if (!(error <= largest)) largest = std::isfinite(error) ? error : INFINITY;
  }
  return largest;
}

/// What rounding to the type changes of a number, relative, at the most: half a unit in the last of its 24, 8 or 11
/// bits.
constexpr double roundoff(DType type) {
  return type == DType::kF32 ? 0x1p-24 : type == DType::kBf16 ? 0x1p-8 : 0x1p-11;
}

/// f(T{}) for the types that numbers are rounded to here.
template <class F>
void for_rounded_types(const F& f) {
  const auto traced = [&]<class T>(T element) {
    SCOPED_TRACE(name_of(kDTypeOf<T>));
    f(element);
  };
  traced(Bf16{});
  if constexpr (kTakesFp16) traced(Fp16{});
}

/// Numbers of any floating type, exactly.
template <class T>
std::vector<double> doubles(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T value : values) result.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

/// |found - expected| / |expected|.
inline double relative_l2(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// A context for whole-tensor kernels.
inline Context context_for(int threads) {
  Context context;
  context.threads = threads;
  return context;
}

}  // namespace petaflow::testing_support
