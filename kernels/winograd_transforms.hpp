// Winograd's minimal filtering in two directions, F(4x4, 3x3), F(3x3, 4x4) and F(2x2, 5x5), on lanes of channels: a
// patch of 6 x 6 numbers per channel replaces m x m outputs of r x r taps, m + r = 7 (Lavin & Gray 2016,
// arXiv:1509.09308).
//
//   forward           y  = A^T [(G w G^T) . (B^T x B)] A
//   backward weights  dw = G^T [(B^T x B) . (A dy A^T)] G
//
// The points are 0, +-2/3, +-3/2 and infinity: half of the rounding error of 0, +-1, +-2, and the product of 2/3 and
// 3/2 is 1.
#pragma once

#include <array>

#include "kernels/lanes.hpp"

namespace petaflow::winograd {

using lanes::Floats;

inline constexpr int kEdge = 6;  // of a patch
inline constexpr int kPositions = kEdge * kEdge;

inline constexpr float kA = 2.0F / 3, kB = 1.5F, kA2 = kA * kA, kB2 = kB * kB;

/// a + s b.
inline Floats plus(const Floats& a, float s, const Floats& b) {
  Floats sum = a;
  lanes::multiply_add(sum, s, b);
  return sum;
}

/// v = B^T d.
inline void transform_source(const Floats (&d)[kEdge], Floats (&v)[kEdge]) {
  const Floats even_a = plus(d[4], -kB2, d[2]), odd_a = plus(d[3], -kB2, d[1]);
  const Floats even_b = plus(d[4], -kA2, d[2]), odd_b = plus(d[3], -kA2, d[1]);
  v[0] = plus(d[4] + d[0], -(kA2 + kB2), d[2]);
  v[1] = plus(even_a, kA, odd_a);
  v[2] = plus(even_a, -kA, odd_a);
  v[3] = plus(even_b, kB, odd_b);
  v[4] = plus(even_b, -kB, odd_b);
  v[5] = plus(d[5] + d[1], -(kA2 + kB2), d[3]);
}

/// y = A^T v, m = kOut outputs.
template <int kOut>
void transform_result(const Floats (&v)[kEdge], Floats (&y)[kOut]) {
  static_assert(kOut >= 2 && kOut <= 4);
  const Floats even_a = v[1] + v[2], odd_a = plus(v[1], -1, v[2]), even_b = v[3] + v[4], odd_b = plus(v[3], -1, v[4]);
  const Floats zero = {};
  y[0] = v[0] + even_a + even_b;
  y[1] = plus(plus(zero, kA, odd_a), kB, odd_b);
  if constexpr (kOut >= 3) y[2] = plus(plus(zero, kA2, even_a), kB2, even_b);
  if constexpr (kOut == 4) y[3] = plus(plus(zero, kA2 * kA, odd_a), kB2 * kB, odd_b);
  y[kOut - 1] += v[5];
}

/// v = A g, of m = kIn gradients.
template <int kIn>
void transform_gradient(const Floats (&g)[kIn], Floats (&v)[kEdge]) {
  static_assert(kIn >= 2 && kIn <= 4);
  Floats even_a = g[0], even_b = g[0], odd_a = g[1], odd_b = g[1];
  if constexpr (kIn >= 3) {
    even_a = plus(g[0], kA2, g[2]);
    even_b = plus(g[0], kB2, g[2]);
  }
  if constexpr (kIn == 4) {
    odd_a = plus(g[1], kA2, g[3]);
    odd_b = plus(g[1], kB2, g[3]);
  }
  v[0] = g[0];
  v[1] = plus(even_a, kA, odd_a);
  v[2] = plus(even_a, -kA, odd_a);
  v[3] = plus(even_b, kB, odd_b);
  v[4] = plus(even_b, -kB, odd_b);
  v[5] = g[kIn - 1];
}

/// G (6, kTaps): row j holds p_j^k / the product of p_j - p_l over the other finite points; the last row, of infinity,
/// the highest power alone.
template <int kTaps>
constexpr std::array<std::array<float, kTaps>, kEdge> weight_matrix() {
  constexpr std::array<double, kEdge - 1> kPoints = {0, 2.0 / 3, -2.0 / 3, 1.5, -1.5};
  std::array<std::array<float, kTaps>, kEdge> g{};
  for (std::size_t j = 0; j < kPoints.size(); ++j) {
    double value = 1;
    for (std::size_t l = 0; l < kPoints.size(); ++l) value /= l == j ? 1 : kPoints[j] - kPoints[l];
    for (std::size_t k = 0; k < kTaps; ++k, value *= kPoints[j]) g[j][k] = static_cast<float>(value);
  }
  g[kEdge - 1][kTaps - 1] = 1;
  return g;
}

template <int kTaps>
inline constexpr auto kG = weight_matrix<kTaps>();

/// u = G w.
template <int kTaps>
KOKKOS_FORCEINLINE_FUNCTION void transform_weights(const Floats (&w)[kTaps], Floats (&u)[kEdge]) {
  lanes::unrolled<kEdge>([&](auto j) {
    u[j] = Floats{};
    lanes::unrolled<kTaps>([&](auto k) { lanes::multiply_add(u[j], kG<kTaps>[j][k], w[k]); });
  });
}

/// dw = G^T u.
template <int kTaps>
KOKKOS_FORCEINLINE_FUNCTION void transform_weight_gradient(const Floats (&u)[kEdge], Floats (&dw)[kTaps]) {
  lanes::unrolled<kTaps>([&](auto k) {
    dw[k] = Floats{};
    lanes::unrolled<kEdge>([&](auto j) { lanes::multiply_add(dw[k], kG<kTaps>[j][k], u[j]); });
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
