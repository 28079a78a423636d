// The matrix products of Winograd's convolutions at one position of a patch, in registers; those of columns of taps,
// too.
#pragma once

#include <cstdint>

#include "kernels/register_blocks.hpp"
#include "kernels/winograd_transforms.hpp"

namespace petaflow::winograd {

using lanes::kHeld;
using lanes::kLanes;
using lanes::Number;
using lanes::unrolled;

/// kRows rows of m, kVectors registers wide = the sum over taps and sources of v times u, or += where kAdds.
/// @param u_stride  numbers between the weights of a source and of the next
template <int kRows, int kVectors, bool kAdds, class T>
void multiply(const Number<T>* v, std::int64_t v_stride, std::int64_t v_tap, std::int64_t taps, std::int64_t sources,
              const Number<T>* u, std::int64_t u_stride, float* m, std::int64_t m_stride) {
  Floats sum[kRows][kVectors] = {};
  if constexpr (kAdds) {
    unrolled<kRows>(
        [&](auto r) { unrolled<kVectors>([&](auto i) { lanes::load(m + r * m_stride + i * kLanes, sum[r][i]); }); });
  }
  for (std::int64_t tap = 0; tap < taps; ++tap, v += v_tap) {
    const Number<T>* row[kRows];
    unrolled<kRows>([&](auto r) { row[r] = v + r * v_stride; });
    for (std::int64_t c = 0; c < sources; ++c, u += u_stride) {
      lanes::Vector<Number<T>> weight[kVectors];
      unrolled<kVectors>([&](auto i) { lanes::load(u + i * kLanes, weight[i]); });
      unrolled<kRows>(
          [&](auto r) { unrolled<kVectors>([&](auto i) { lanes::multiply_add(sum[r][i], row[r][c], weight[i]); }); });
    }
  }
  unrolled<kRows>([&](auto r) {
    unrolled<kVectors>([&](auto i) { lanes::store(m + r * m_stride + i * kLanes, kLanes, sum[r][i]); });
  });
}

// The way back from positions to taps magnifies the error of sums four to five times in six points, so they have
// levels: rows whose products are summed in registers, and rows whose sums are added beside them before they go to
// memory.  So many keep tiles and whole tensors together to 1e-6 (tests/test_networks.cpp).  Products of bf16, whose
// rounding is a thousand times as large, have one level: the other, for which there are too few registers, costs 4 %
// (256 channels on 192 x 288 pixels, stride 2, batch 2, two threads of a Zen 4: 67.5 to 65.0 ms).
inline constexpr std::int64_t kRowsAtOnce = 128;
template <class T>
inline constexpr std::int64_t kRowsInRegisters = kHeld<T> == 1 ? 16 : kRowsAtOnce;

/// kSources x kVectors registers of s += the sum over rows of v times d.
template <int kSources, int kVectors, class T>
void correlate(const Number<T>* v, std::int64_t v_stride, const Number<T>* d, std::int64_t d_stride, std::int64_t rows,
               float* s) {
  Floats total[kSources][kVectors] = {};
  in_pieces(rows, kRowsInRegisters<T>, [&](std::int64_t, std::int64_t size) {
    Floats sum[kSources][kVectors] = {};
    for (std::int64_t r = 0; r < size; ++r, v += v_stride, d += d_stride) {
      lanes::Vector<Number<T>> gradient[kVectors];
      unrolled<kVectors>([&](auto i) { lanes::load(d + i * kLanes, gradient[i]); });
      unrolled<kSources>(
          [&](auto c) { unrolled<kVectors>([&](auto i) { lanes::multiply_add(sum[c][i], v[c], gradient[i]); }); });
    }
    unrolled<kSources>([&](auto c) { unrolled<kVectors>([&](auto i) { total[c][i] += sum[c][i]; }); });
  });
  unrolled<kSources>([&](auto c) {
    unrolled<kVectors>([&](auto i) {
      float* to = s + (c * kVectors + i) * kLanes;
      Floats before;
      lanes::load(to, before);
      lanes::store(to, kLanes, before + total[c][i]);
    });
  });
}

}  // namespace petaflow::winograd
