// Winograd's minimal filtering in two directions, F(5x5, 2x2), F(4x4, 3x3), F(6x6, 3x3), F(3x3, 4x4) and F(4x4, 5x5),
// on lanes of channels: a patch of e x e numbers per channel replaces m x m outputs of r x r taps, m + r = e + 1 (Lavin
// & Gray 2016, arXiv:1509.09308).
//
//   forward           y  = A^T [(G w G^T) . (B^T x B)] A
//   backward weights  dw = G^T [(B^T x B) . (A dy A^T)] G
//
// The points are 0, infinity and pairs +-p: p = 2/3 and 3/2 where e is 6, with half of the rounding error of 1 and 2;
// 1/2, 1 and 2 where e is 8, for 5 x 5 taps and for many channels of 3 x 3.  For 5 x 5 taps 64 products take the place
// of 400 there; F(2x2, 5x5) in six points has 144 of them, and writes and reads as many transformed numbers.  For 3 x 3
// taps they are 64 for 36 outputs instead of 81.  What is transformed in f32 is off by 0.5e-6 to 1e-6 (relative, L2) in
// six points and by 2e-6 to 4e-6 in eight, sums of products by 0.2e-6 to 0.6e-6 (16 and 128 channels).
#pragma once

#include <array>
#include <cstdint>

#include "kernels/lanes.hpp"

namespace petaflow::winograd {

using lanes::Floats;

/// Numbers along an edge of a patch; taps of 3 x 3 may have kLargeEdge.
constexpr int edge_of(std::int64_t taps) { return taps == 5 ? 8 : 6; }
inline constexpr int kLargeEdge = 8;

/// The pairs of points +-p; the product of all p is 1.
template <int kEdge>
struct Points;
template <>
struct Points<6> {
  static constexpr std::array<double, 2> kPairs = {2.0 / 3, 1.5};
};
template <>
struct Points<8> {
  static constexpr std::array<double, 3> kPairs = {0.5, 1, 2};
};
template <int kEdge>
inline constexpr int kPairCount = kEdge / 2 - 1;

/// p^k of a pair.
template <int kEdge>
constexpr float power(int pair, int k) {
  const auto p = static_cast<float>(Points<kEdge>::kPairs[static_cast<std::size_t>(pair)]);
  float value = k > 0 ? p : 1;
  for (int i = 1; i < k; ++i) value *= p;
  return value;
}

/// Coefficients of the product of x - p^2 over all pairs but `without` (-1: over all), from the highest power, whose
/// is 1, to that of x^0.
template <int kEdge>
constexpr std::array<float, kPairCount<kEdge> + 1> product_of_pairs(int without) {
  std::array<float, kPairCount<kEdge> + 1> c{1};
  for (int pair = 0, degree = 0; pair < kPairCount<kEdge>; ++pair) {
    if (pair == without) continue;
    for (int k = ++degree; k > 0; --k) {
      c[static_cast<std::size_t>(k)] -= power<kEdge>(pair, 2) * c[static_cast<std::size_t>(k - 1)];
    }
  }
  return c;
}

/// a + s b.
inline Floats plus(const Floats& a, float s, const Floats& b) {
  Floats sum = a;
  lanes::multiply_add(sum, s, b);
  return sum;
}

/// v = B^T d: v[0] of the point 0, then those of p and -p for each pair, the last of infinity.
template <int kEdge>
KOKKOS_FORCEINLINE_FUNCTION void transform_source(const Floats (&d)[kEdge], Floats (&v)[kEdge]) {
  constexpr int kCount = kPairCount<kEdge>, kTop = kEdge - 2;
  // The coefficient of the lowest power is 1 or -1.
  constexpr auto kAll = product_of_pairs<kEdge>(-1);
  constexpr float kLowest = kCount % 2 == 0 ? 1 : -1;
  Floats zero = plus(d[kTop], kLowest, d[0]), infinity = plus(d[kTop + 1], kLowest, d[1]);
  lanes::unrolled<kCount - 1>([&](auto k) {
    zero = plus(zero, kAll[k + 1], d[kTop - 2 - 2 * k]);
    infinity = plus(infinity, kAll[k + 1], d[kTop - 1 - 2 * k]);
  });
  v[0] = zero;
  v[kEdge - 1] = infinity;
  lanes::unrolled<kCount>([&](auto pair) {
    constexpr auto kOthers = product_of_pairs<kEdge>(pair);
    Floats even = d[kTop], odd = d[kTop - 1];
    lanes::unrolled<kCount - 1>([&](auto k) {
      even = plus(even, kOthers[k + 1], d[kTop - 2 - 2 * k]);
      odd = plus(odd, kOthers[k + 1], d[kTop - 3 - 2 * k]);
    });
    v[1 + 2 * pair] = plus(even, power<kEdge>(pair, 1), odd);
    v[2 + 2 * pair] = plus(even, -power<kEdge>(pair, 1), odd);
  });
}

/// y = A^T v, m = kOut outputs.
template <int kEdge, int kOut>
KOKKOS_FORCEINLINE_FUNCTION void transform_result(const Floats (&v)[kEdge], Floats (&y)[kOut]) {
  constexpr int kCount = kPairCount<kEdge>;
  Floats even[kCount], odd[kCount];
  lanes::unrolled<kCount>([&](auto pair) {
    even[pair] = v[1 + 2 * pair] + v[2 + 2 * pair];
    odd[pair] = plus(v[1 + 2 * pair], -1, v[2 + 2 * pair]);
  });
  lanes::unrolled<kOut>([&](auto k) {
    y[k] = k == 0 ? v[0] : Floats{};
    lanes::unrolled<kCount>(
        [&](auto pair) { y[k] = plus(y[k], power<kEdge>(pair, k), k % 2 == 0 ? even[pair] : odd[pair]); });
  });
  y[kOut - 1] += v[kEdge - 1];
}

/// v = A g, of m = kIn gradients.
template <int kEdge, int kIn>
KOKKOS_FORCEINLINE_FUNCTION void transform_gradient(const Floats (&g)[kIn], Floats (&v)[kEdge]) {
  v[0] = g[0];
  v[kEdge - 1] = g[kIn - 1];
  lanes::unrolled<kPairCount<kEdge>>([&](auto pair) {
    Floats even = g[0], odd = g[1];
    lanes::unrolled<(kIn - 1) / 2>([&](auto k) { even = plus(even, power<kEdge>(pair, 2 * k + 2), g[2 * k + 2]); });
    lanes::unrolled<(kIn - 2) / 2>([&](auto k) { odd = plus(odd, power<kEdge>(pair, 2 * k + 2), g[2 * k + 3]); });
    v[1 + 2 * pair] = plus(even, power<kEdge>(pair, 1), odd);
    v[2 + 2 * pair] = plus(even, -power<kEdge>(pair, 1), odd);
  });
}

/// G (e, kTaps): the row of a point p holds p^k / the product of p - q over the other finite points q; the last row, of
/// infinity, the highest power alone.
template <int kTaps, int kEdge>
constexpr auto weight_matrix() {
  std::array<double, kEdge - 1> points{};
  for (std::size_t pair = 0; pair < Points<kEdge>::kPairs.size(); ++pair) {
    points[1 + 2 * pair] = Points<kEdge>::kPairs[pair];
    points[2 + 2 * pair] = -Points<kEdge>::kPairs[pair];
  }
  std::array<std::array<float, kTaps>, kEdge> g{};
  for (std::size_t j = 0; j < points.size(); ++j) {
    double value = 1;
    for (std::size_t l = 0; l < points.size(); ++l) value /= l == j ? 1 : points[j] - points[l];
    for (std::size_t k = 0; k < kTaps; ++k, value *= points[j]) g[j][k] = static_cast<float>(value);
  }
  g[kEdge - 1][kTaps - 1] = 1;
  return g;
}

template <int kTaps, int kEdge>
inline constexpr auto kG = weight_matrix<kTaps, kEdge>();

/// u = G w.
template <int kTaps, int kEdge>
KOKKOS_FORCEINLINE_FUNCTION void transform_weights(const Floats (&w)[kTaps], Floats (&u)[kEdge]) {
  lanes::unrolled<kEdge>([&](auto j) {
    u[j] = Floats{};
    lanes::unrolled<kTaps>([&](auto k) { lanes::multiply_add(u[j], kG<kTaps, kEdge>[j][k], w[k]); });
  });
}

/// dw = G^T u.
template <int kTaps, int kEdge>
KOKKOS_FORCEINLINE_FUNCTION void transform_weight_gradient(const Floats (&u)[kEdge], Floats (&dw)[kTaps]) {
  lanes::unrolled<kTaps>([&](auto k) {
    dw[k] = Floats{};
    lanes::unrolled<kEdge>([&](auto j) { lanes::multiply_add(dw[k], kG<kTaps, kEdge>[j][k], u[j]); });
  });
}

/// The transform of both directions, of kCount patches side by side: `row(n, i, in)` gives row i of the kIn x kIn
/// numbers of patch n, `transform` takes kIn to kOut numbers, and `column(j, out)` takes column j of the kOut x kOut
/// results of each.
template <int kIn, int kOut, int kCount, class Row, class Transform, class Column>
KOKKOS_FORCEINLINE_FUNCTION void both_ways(const Row& row, const Transform& transform, const Column& column) {
  Floats half[kCount][kIn][kOut];
  for (int n = 0; n < kCount; ++n) {
    for (int i = 0; i < kIn; ++i) {
      Floats in[kIn];
      row(n, i, in);
      transform(in, half[n][i]);
    }
  }
  for (int j = 0; j < kOut; ++j) {
    Floats out[kCount][kOut];
    for (int n = 0; n < kCount; ++n) {
      Floats in[kIn];
      for (int i = 0; i < kIn; ++i) in[i] = half[n][i][j];
      transform(in, out[n]);
    }
    column(j, out);
  }
}

/// Writes result i of a column: of one patch, rounded to Stored, or pairs of two patches.
template <class Stored, int kCount, int kOut>
KOKKOS_FORCEINLINE_FUNCTION void store_number(Stored* to, const Floats (&out)[kCount][kOut], int i) {
  if constexpr (kCount == 1) {
    lanes::store(to, lanes::kLanes, out[0][i]);
  } else {
    lanes::store(to, lanes::kLanes, lanes::pair(out[0][i], out[1][i]));
  }
}

}  // namespace petaflow::winograd
