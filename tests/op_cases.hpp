// THE list of operator cases: values, every implementation, gradients and the benchmark walk it.  One line per case.
#pragma once

#include <cstdint>
#include <ostream>

#include "kernels/conv.hpp"
#include "kernels/epilogue.hpp"
#include "kernels/gemm.hpp"

namespace petaflow::cases {

/// A convolution.  x_gap, y_gap: channels between neighbouring pixels that belong to somebody else.
struct ConvCase {
  const char* name;
  std::int64_t n = 1, in_channels = 1, out_channels = 1;
  Extent in;
  ConvGeometry geometry;
  std::int64_t x_gap = 0, y_gap = 0;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const ConvCase& c, std::ostream* out) { *out << c.name; }

/// The same padding on both sides.
constexpr ConvGeometry window(Extent kernel, Extent pad, Extent stride = {}, Extent dilation = {},
                              std::int64_t groups = 1) {
  return {kernel, stride, dilation, pad, pad, groups};
}
constexpr ConvGeometry asymmetric(Extent kernel, Extent pad_begin, Extent pad_end, Extent stride = {},
                                  Extent dilation = {}) {
  return {kernel, stride, dilation, pad_begin, pad_end, 1};
}

inline const ConvCase kConvCases[] = {
    // clang-format off
    // two dimensions
    {"k1",                2,   4,   5, {1, 6, 7},    window({1, 1, 1}, {0, 0, 0})},
    {"k1_stride2",        2,  17,  16, {1, 7, 9},    window({1, 1, 1}, {0, 0, 0}, {1, 2, 2})},
    {"k1_many",           2, 131, 150, {1, 17, 23},  window({1, 1, 1}, {0, 0, 0})},
    {"k1_many_strided",   1, 790, 129, {1, 11, 16},  window({1, 1, 1}, {0, 0, 0}, {1, 2, 2})},
    {"k1_many_slices",    2, 140, 136, {1, 9, 10},   window({1, 1, 1}, {0, 0, 0}), 7, 20},
    {"k1_wide",           1, 525, 270, {1, 19, 27},  window({1, 1, 1}, {0, 0, 0}), 3, 1},
    {"k1_wide_strided",   1, 256, 600, {1, 13, 18},  window({1, 1, 1}, {0, 0, 0}, {1, 2, 2})},
    {"k1_many_3d",        1, 128, 129, {3, 5, 6},    window({1, 1, 1}, {0, 0, 0}, {2, 1, 2})},
    {"k3_first_layer",    2,   3, 128, {1, 18, 15},  window({1, 3, 3}, {0, 1, 1})},
    {"k3_one_to_one",     1,   1,   1, {1, 5, 5},    window({1, 3, 3}, {0, 1, 1})},
    {"k3_128",            1, 128, 128, {1, 9, 14},   window({1, 3, 3}, {0, 1, 1})},
    {"k3_odd_channels",   3,  17,  33, {1, 9, 13},   window({1, 3, 3}, {0, 1, 1})},
    {"k3_tiles",          1,  16,  32, {1, 36, 66},  window({1, 3, 3}, {0, 1, 1})},
    {"k4_tiles",          1,  32,  16, {1, 36, 50},  asymmetric({1, 4, 4}, {0, 1, 2}, {0, 2, 1})},
    {"k5_tiles",          1,  16,  32, {1, 38, 41},  window({1, 5, 5}, {0, 2, 2})},
    {"k5_slices",         2,  32,  16, {1, 23, 30},  asymmetric({1, 5, 5}, {0, 1, 3}, {0, 3, 0}), 16, 16},
    {"k2_tiles",          1,  16,  32, {1, 42, 57},  asymmetric({1, 2, 2}, {0, 0, 1}, {0, 1, 0})},
    {"k3_stride2_tiles",  2,  16,  32, {1, 61, 58},  window({1, 3, 3}, {0, 1, 1}, {1, 2, 2})},
    {"k4_stride2_tiles",  1,  32,  16, {1, 70, 71},  window({1, 4, 4}, {0, 1, 1}, {1, 2, 2})},
    {"k5_stride2_tiles",  1,  16,  16, {1, 60, 57},  asymmetric({1, 5, 5}, {0, 2, 1}, {0, 1, 2}, {1, 2, 2}), 16, 32},
    {"k7_stride2_tiles",  1,  16,  16, {1, 49, 54},  window({1, 7, 7}, {0, 3, 3}, {1, 2, 2})},
    {"k9_stride2_tiles",  1,  16,  16, {1, 49, 54},  window({1, 9, 9}, {0, 4, 4}, {1, 2, 2})},
    {"k3_no_padding",     2,  16,  16, {1, 8, 27},   window({1, 3, 3}, {0, 0, 0})},
    {"k3_pieces",         2, 144,  48, {1, 10, 9},   window({1, 3, 3}, {0, 1, 1})},
    {"k5_stride2_pieces", 1,  48,  80, {1, 14, 17},  window({1, 5, 5}, {0, 2, 2}, {1, 2, 2})},
    {"k6_stride2_pieces", 1,  32,  48, {1, 15, 14},  window({1, 6, 6}, {0, 2, 2}, {1, 2, 2})},
    {"k6_stride2_odd",    1,  32,  48, {1, 15, 14},  asymmetric({1, 6, 6}, {0, 1, 2}, {0, 2, 3}, {1, 2, 2})},
    {"k3_stride2",        2,   4,  16, {1, 11, 12},  window({1, 3, 3}, {0, 1, 1}, {1, 2, 2})},
    {"k5_stride2",        1,  16,  20, {1, 13, 26},  window({1, 5, 5}, {0, 2, 2}, {1, 2, 2})},
    {"k2_stride3",        2,   3,   4, {1, 10, 11},  window({1, 2, 2}, {0, 0, 0}, {1, 3, 3})},
    {"k3_dilation2",      2,  16,   8, {1, 10, 9},   window({1, 3, 3}, {0, 2, 2}, {1, 1, 1}, {1, 2, 2})},
    {"k3_dilated_wide",   1, 262, 515, {1, 7, 6},    window({1, 3, 3}, {0, 3, 3}, {1, 1, 1}, {1, 3, 3}), 2, 0},
    {"k4_dilated_wide",   1, 512, 256, {1, 11, 7},   asymmetric({1, 4, 3}, {0, 5, 2}, {0, 3, 6}, {1, 2, 1}, {1, 3, 4})},
    {"k3_dilated_stride", 1,   4,   3, {1, 12, 13},  window({1, 3, 3}, {0, 3, 1}, {1, 2, 3}, {1, 3, 2})},
    {"k5x1",              2,   3,  17, {1, 9, 4},    window({1, 5, 1}, {0, 2, 0})},
    {"k4_asymmetric",     2,   4,  16, {1, 9, 10},   asymmetric({1, 4, 4}, {0, 1, 2}, {0, 2, 1})},
    {"k3_asym_stride",    1,  16,   4, {1, 8, 7},    asymmetric({1, 3, 3}, {0, 0, 2}, {0, 1, 0}, {1, 2, 2})},
    {"one_output_pixel",  3,  17,   4, {1, 3, 3},    window({1, 3, 3}, {0, 0, 0})},
    {"kernel_over_input", 1,   3,   4, {1, 2, 1},    window({1, 5, 5}, {0, 2, 2})},
    {"groups2",           2,   8,  12, {1, 7, 6},    window({1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, 2)},
    {"groups4_stride",    1,  16,   4, {1, 9, 8},    window({1, 3, 3}, {0, 1, 1}, {1, 2, 1}, {1, 1, 1}, 4)},
    {"depthwise",         2,  17,  17, {1, 8, 9},    window({1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, 17)},
    {"depthwise_times2",  1,  16,  32, {1, 7, 7},    window({1, 3, 3}, {0, 2, 2}, {1, 2, 2}, {1, 2, 2}, 16)},
    {"depthwise_200",     2, 200, 200, {1, 9, 30},   window({1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, 200)},
    {"depthwise_stride",  2,  33,  33, {1, 11, 26},  window({1, 3, 3}, {0, 1, 1}, {1, 2, 2}, {1, 1, 1}, 33)},
    {"depthwise_dilated", 1,  40,  40, {1, 21, 33},  window({1, 3, 3}, {0, 18, 18}, {1, 1, 1}, {1, 18, 18}, 40)},
    {"depthwise_both",    1,   7,   7, {1, 23, 25},  window({1, 5, 4}, {0, 3, 4}, {1, 3, 2}, {1, 2, 3}, 7)},
    {"depthwise_k1",      2,  24,  24, {1, 1, 1},    window({1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}, 24)},
    {"depthwise_k7",      1,  16,  16, {1, 5, 40},   window({1, 7, 7}, {0, 3, 3}, {1, 1, 1}, {1, 1, 1}, 16)},
    {"depthwise_slices",  2,  20,  20, {1, 9, 8},    window({1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, 20), 5, 12},
    {"k3_stride2_large",  1,  16,  16, {1, 81, 139}, window({1, 3, 3}, {0, 1, 1}, {1, 2, 2})},
    {"k3_dilated_large",  1,  16,  16, {1, 40, 70},  window({1, 3, 3}, {0, 2, 2}, {1, 1, 1}, {1, 2, 2})},
    {"k3_dilation4",      2,  32,  16, {1, 24, 44},  asymmetric({1, 3, 3}, {0, 4, 0}, {0, 4, 8}, {1, 1, 1}, {1, 4, 4}), 16, 16},
    {"k5_dilation3",      1,  16,  16, {1, 36, 30},  window({1, 5, 5}, {0, 6, 6}, {1, 1, 1}, {1, 3, 3})},
    {"k3_to_3",           2,  40,   3, {1, 10, 15},  window({1, 3, 3}, {0, 1, 1})},
    {"k3_to_3_reversed",  2,   3,  70, {1, 11, 14},  window({1, 3, 3}, {0, 1, 1}, {1, 2, 2})},
    {"k4_to_2_dilated",   1,  64,   2, {1, 13, 17},  asymmetric({1, 4, 3}, {0, 3, 0}, {0, 2, 4}, {1, 1, 1}, {1, 2, 2})},
    {"slices_to_4",       2,  34,   4, {1, 9, 12},   window({1, 3, 3}, {0, 1, 1}, {1, 2, 2}), 16, 5},
    {"k3_odd_line",       1,   3,  16, {1, 5, 19},   window({1, 3, 3}, {0, 1, 1})},
    {"k3_folded",         2,   3,  16, {1, 9, 24},   window({1, 3, 3}, {0, 1, 1})},
    {"k4_folded",         1,   2,   8, {1, 7, 32},   asymmetric({1, 4, 4}, {0, 1, 2}, {0, 2, 1})},
    {"k3_folded_sums",    2,  32,  24, {1, 9, 14},   window({1, 3, 3}, {0, 1, 1})},
    {"slice_of_x",        2,   4,  16, {1, 6, 7},    window({1, 3, 3}, {0, 1, 1}), 12, 0},
    {"slice_of_y",        2,  16,   3, {1, 6, 7},    window({1, 3, 3}, {0, 1, 1}), 0, 13},
    {"slices_128",        1, 128,  48, {1, 7, 12},   window({1, 3, 3}, {0, 1, 1}), 16, 80},
    {"slices_first",      2,   3,  16, {1, 9, 21},   window({1, 3, 3}, {0, 1, 1}), 0, 5},
    {"slices_tiles",      2,  16,  32, {1, 26, 36},  window({1, 3, 3}, {0, 1, 1}), 16, 8},
    {"slices_k1",         2,  16,  32, {1, 9, 10},   window({1, 1, 1}, {0, 0, 0}), 3, 48},
    {"slices_stride2",    2,  16,  32, {1, 13, 12},  window({1, 3, 3}, {0, 1, 1}, {1, 2, 2}), 32, 16},
    {"slices_groups",     1,  16,  32, {1, 9, 8},    window({1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, 4), 7, 16},
    // three dimensions
    {"3d_k3_first_layer", 1,   4,  16, {6, 7, 9},    window({3, 3, 3}, {1, 1, 1})},
    {"3d_k4_one_channel", 2,   1,  17, {7, 6, 8},    window({4, 4, 4}, {0, 0, 0})},
    {"3d_k3_two_planes",  2,  16,  32, {2, 5, 7},    window({3, 3, 3}, {1, 1, 1})},
    {"3d_k3_stride2",     1,  16,  16, {5, 7, 6},    window({3, 3, 3}, {1, 1, 1}, {2, 2, 2})},
    {"3d_k2_mixed",       1,   3,   4, {5, 6, 7},    window({2, 3, 1}, {1, 0, 0}, {1, 2, 1}, {2, 1, 1})},
    {"3d_asym_dilation",  1,   4,   3, {6, 5, 7},    asymmetric({3, 2, 3}, {2, 0, 1}, {1, 1, 3}, {1, 1, 2}, {2, 1, 2})},
    {"3d_depthwise",      1,  16,  16, {4, 5, 6},    window({3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 16)},
    {"3d_depthwise_both", 2,  21,  21, {5, 7, 9},    window({3, 3, 3}, {2, 1, 2}, {2, 1, 2}, {2, 1, 2}, 21), 3, 4},
    {"3d_one_side",       1,  16,  16, {4, 3, 9},    asymmetric({1, 4, 2}, {0, 2, 1}, {0, 0, 0})},
    {"3d_k5_pad2",        1,  16,  16, {6, 9, 10},   window({5, 5, 5}, {2, 2, 2})},
    {"3d_only_padding",   1,   4,   4, {1, 5, 6},    asymmetric({1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {2, 1, 1})},
    {"3d_padding_pieces", 1,  16,  16, {1, 40, 40},  window({1, 3, 3}, {1, 1, 1}, {2, 1, 1})},
    {"3d_k3_tiles",       2,  16,  48, {5, 10, 13},  window({3, 3, 3}, {1, 1, 1})},
    {"3d_k4_tiles",       1,  32,  16, {6, 13, 15},  window({4, 4, 4}, {0, 0, 0})},
    {"3d_tiles_sliced",   1,  16,  16, {6, 10, 13},  asymmetric({2, 3, 3}, {1, 2, 0}, {1, 0, 2}), 5, 9},
    {"3d_k3_large",       1,  16,  16, {5, 24, 22},  window({3, 3, 3}, {1, 1, 1})},
    {"3d_stride_large",   1,  16,  16, {9, 40, 52},  window({3, 3, 3}, {1, 1, 1}, {2, 2, 2})},
    {"3d_k3_folded",      2,   4,  16, {3, 5, 16},   window({3, 3, 3}, {1, 1, 1})},
    {"3d_folded_sums",    1,  32,  64, {4, 5, 12},   window({3, 3, 3}, {1, 1, 1})},
    {"3d_slices",         2,   4,   4, {3, 4, 5},    window({3, 3, 3}, {1, 1, 1}), 4, 3},
    // clang-format on
};

/// A matrix product; gap: elements between the rows of all three matrices.
struct GemmCase {
  const char* name;
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  float beta = 0;
  std::int64_t gap = 0;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const GemmCase& c, std::ostream* out) { *out << c.name; }

inline const GemmCase kGemmCases[] = {
    // clang-format off
    {"one",               1,   1,   1},
    {"row_times_matrix",  1,  40,  33},
    {"dense_forward",     8,   2, 128, false, true},
    {"dense_dx",          8, 128,   2},
    {"dense_dw",          2, 128,   8, true,  false, 1},
    {"square",           64,  64,  64},
    {"odd",              37,  53,  29},
    {"odd_ta",           37,  53,  29, true,  false},
    {"odd_tb",           37,  53,  29, false, true},
    {"odd_ta_tb",        37,  53,  29, true,  true, 1},
    {"beta",             13,  31,  70, false, false, 1},
    {"gaps",             13,  31,  70, false, true,  1, 5},
    {"gaps_ta",          25,  16,  40, true,  false, 0, 3},
    {"long_sum",          5,  17, 3000, true, true},
    // clang-format on
};

/// The work behind a convolution.
struct EpilogueCase {
  const char* name;
  Shape v;  // with the batch
  PoolGeometry pool;
  bool bias = false;
  float slope = 1;  // of the activation where it is negative; 1: no activation
  float dropout = 0;
  bool scale = false, residual = false;

  EpilogueDesc desc(DType type) const {
    const Extent out = pool.output(v.extent());
    const int layer = 3;
    return {v, {v.n, v.c, out.d, out.h, out.w}, pool, bias, slope != 1, slope, dropout, layer, type};
  }
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const EpilogueCase& c, std::ostream* out) { *out << c.name; }

/// Windows that tile, and others.
constexpr PoolGeometry largest(Extent window) { return {PoolKind::kMax, window, window, {0, 0, 0}}; }
constexpr PoolGeometry largest(Extent window, Extent stride, Extent pad) {
  return {PoolKind::kMax, window, stride, pad};
}
constexpr PoolGeometry average(Extent window) { return {PoolKind::kAverage, window, window, {0, 0, 0}}; }
constexpr PoolGeometry average(Extent window, Extent stride, Extent pad) {
  return {PoolKind::kAverage, window, stride, pad};
}

// Registers hold 4, 8 or 16 channels, up to 64 are handled at once, and of 8, 16 and 32 several pixels.  The position
// in a window of more than 64 pixels takes 16 bits.
inline const EpilogueCase kEpilogueCases[] = {
    // clang-format off
    {"nothing",           {2,   5, 1,  3,  7}, {}},
    {"bias_130",          {2, 130, 1,  5,  4}, {}, true},
    {"relu_1",            {3,   1, 1,  9,  7}, {}, true,  0},
    {"relu_8",            {2,   8, 1,  3, 35}, {}, true,  0},
    {"relu_16",           {2,  16, 1,  4, 39}, {}, true,  0},
    {"leaky_32",          {2,  32, 1,  3, 11}, {}, true,  0.25F},
    {"dropout_70",        {3,  70, 1,  4,  5}, {}, false, 1,     0.5F},
    {"relu_dropout_17",   {3,  17, 1,  4,  6}, {}, true,  0,     0.3F},
    {"leaky_3d_66",       {2,  66, 3,  2,  5}, {}, true,  0.25F, 0.5F},
    {"max_1",             {2,   1, 1,  8,  6}, largest({1, 2, 2})},
    {"max_rest_5",        {2,   5, 1,  7,  9}, largest({1, 2, 2}), true, 0},
    {"max_8",             {2,   8, 1,  4, 22}, largest({1, 2, 2}), true, 0.25F},
    {"max_16",            {2,  16, 1,  8, 74}, largest({1, 2, 2}), true, 0},
    {"max_32",            {2,  32, 1,  6, 10}, largest({1, 3, 2}), true, 0.25F, 0.5F},
    {"max_128",           {1, 128, 1,  4,  6}, largest({1, 2, 2}), true, 0,     0.5F},
    {"max_overlap_66",    {2,  66, 1,  7,  8}, largest({1, 3, 3}, {1, 2, 2}, {0, 1, 1}), true, 0},
    {"max_apart_16",      {2,  16, 1,  9, 11}, largest({1, 2, 2}, {1, 3, 3}, {0, 0, 0}), true, 0.25F},
    {"max_3d_48",         {1,  48, 5,  6,  4}, largest({2, 3, 2}, {2, 2, 1}, {0, 1, 0}), true, 0.25F, 0.5F},
    {"max_64_pixels",     {2,   3, 1, 16, 24}, largest({1, 8, 8}), true, 0},
    {"max_65_pixels",     {2,  17, 1, 10, 27}, largest({1, 5, 13}), true, 0},
    {"max_255_pixels",    {2,   5, 4,  7, 20}, largest({3, 5, 17}, {1, 2, 3}, {1, 2, 8}), true, 0.25F, 0.5F},
    {"max_270_pixels",    {1,  64, 6,  9, 20}, largest({3, 9, 10}), true, 0},
    {"average_rest_5",    {2,   5, 1,  7,  6}, average({1, 2, 2})},
    {"average_8",         {2,   8, 1,  4, 22}, average({1, 2, 2}), true, 0.25F},
    {"average_16",        {2,  16, 1,  8, 74}, average({1, 2, 2}), true, 0,     0.5F},
    {"average_32",        {2,  32, 1,  6, 10}, average({1, 3, 2}), true, 0.25F},
    {"average_130",       {2, 130, 1,  4,  6}, average({1, 2, 2}), true, 0,     0.3F},
    {"average_overlap_70",{2,  70, 1,  7,  8}, average({1, 3, 3}, {1, 2, 2}, {0, 1, 1}), true, 0.25F, 0.3F},
    {"average_apart_17",  {2,  17, 1,  9, 11}, average({1, 2, 2}, {1, 3, 3}, {0, 0, 0}), true, 0},
    {"average_3d_64",     {1,  64, 4,  6,  4}, average({2, 2, 2}), true, 0},
    {"average_3d_rest_3", {2,   3, 5,  4,  6}, average({2, 2, 2}), true, 0.25F},
    {"global_48",         {3,  48, 1,  5,  4}, average({1, 5, 4}), true, 0},
    {"global_66",         {3,  66, 1,  9,  8}, average({1, 9, 8}), true, 0,     0.3F},
    {"scale_5",           {2,   5, 1,  3,  7}, {}, true,  1,     0, true},
    {"scale_16",          {2,  16, 1,  4, 39}, {}, true,  0,     0, true},
    {"residual_32",       {2,  32, 1,  3, 11}, {}, true,  0,     0, false, true},
    {"residual_66",       {2,  66, 1,  3, 11}, {}, false, 0.25F, 0.5F, true, true},
    {"scale_max_21",      {2,  21, 1,  6, 10}, largest({1, 2, 2}), true, 0, 0, true},
    {"residual_max_16",   {2,  16, 1,  8, 70}, largest({1, 2, 2}), true, 0, 0, true, true},
    {"residual_3d_64",    {1,  64, 5,  6,  4}, largest({2, 3, 2}, {2, 2, 1}, {0, 1, 0}), true, 0, 0, true, true},
    {"residual_mean_16",  {2,  16, 1,  8, 74}, average({1, 2, 2}), true, 0, 0, true, true},
    {"residual_signs_70", {2,  70, 1,  4,  5}, average({1, 1, 1}), true, 0, 0, true, true},
    // clang-format on
};

/// Batch normalisation of x, with a weight and a bias or without, and what follows it.
struct BatchNormCase {
  const char* name;
  Shape x;  // with the batch
  bool affine = true;
  PoolGeometry pool{};
  float slope = 1;  // of the activation where it is negative; 1: no activation
  float dropout = 0;
  bool residual = false;

  /// Its epilogue.
  EpilogueDesc desc(DType type) const {
    EpilogueDesc desc = EpilogueCase{name, x, pool, false, slope, dropout}.desc(type);
    desc.dv_in_f32 = true;
    return desc;
  }
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const BatchNormCase& c, std::ostream* out) { *out << c.name; }

inline const BatchNormCase kBatchNormCases[] = {
    // clang-format off
    {"1",         {3,   1, 1,  4,  8}},
    {"1_odd",     {2,   1, 1,  5,  7}, false},
    {"3",         {3,   3, 1,  4,  6}},
    {"4",         {2,   4, 1,  4,  6}},
    {"3d_4_odd",  {2,   4, 3,  5,  3}},
    {"5",         {3,   5, 1,  4,  6}, false},
    {"3d_8",      {2,   8, 2,  3,  4}},
    {"16",        {2,  16, 1,  5,  3}},
    {"3d_16_large", {2, 16, 8, 16, 17}},
    {"21",        {4,  21, 1,  5,  3}},
    {"3d_43",     {2,  43, 2,  3,  3}, false},
    {"64",        {2,  64, 1,  7,  5}},
    {"3d_130",    {2, 130, 2,  9,  8}},
    {"relu_3",    {3,   3, 1,  4,  6}, true,  {}, 0},
    {"relu_64",   {3,  64, 1, 20, 37}, true,  {}, 0},
    {"add_20",    {2,  20, 1,  5,  7}, true,  {}, 1, 0, true},
    {"add_relu_72", {3, 72, 1, 9, 11}, true,  average({1, 1, 1}), 0, 0, true},
    {"max_32",    {3,  32, 1, 46, 34}, true,  largest({1, 2, 2}), 0.25F},
    {"overlap_16", {2, 16, 1, 33, 40}, true,  largest({1, 3, 3}, {1, 2, 2}, {0, 1, 1}), 0},
    {"3d_max_9",  {3,   9, 4,  6,  7}, false, largest({2, 2, 2}), 0, 0.5F, true},
    {"mean_48",   {2,  48, 1,  6,  8}, true,  average({1, 2, 2}), 0},
    {"wide_256",  {2, 256, 1, 10, 80}, true,  largest({1, 2, 2}), 0, 0, true},
    // clang-format on
};

/// Rows and columns of what has no other shape: samples and classes of a loss, pixels and channels of a sum; an
/// optimizer has rows times columns weights.
struct MatrixCase {
  const char* name;
  std::int64_t rows, columns;

  std::int64_t elements() const { return rows * columns; }
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const MatrixCase& c, std::ostream* out) { *out << c.name; }

inline const MatrixCase kMatrixCases[] = {
    // clang-format off
    {"one",          1,    1},
    {"one_row",      1,  130},
    {"one_column", 999,    1},
    {"pairs",     1000,    2},
    {"odd",         37,    5},
    {"wide",         3,  700},
    {"tall",      9001,    3},
    {"large",     1000,  130},
    // clang-format on
};

/// Softmax cross-entropy at every pixel.
struct PixelSoftmaxCase {
  const char* name;
  Shape logits;  // with the batch
  bool weighted = false;
  int ignored = -1;
  float focus = 0;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const PixelSoftmaxCase& c, std::ostream* out) { *out << c.name; }

// Runs hold 64 pixels.
inline const PixelSoftmaxCase kPixelSoftmaxCases[] = {
    // clang-format off
    {"one_pixel",     {3,  4, 1,  1,  1}},
    {"one_class",     {2,  1, 1,  3,  4}},
    {"one_run",       {2,  3, 1,  8,  8}},
    {"rest",          {3,  3, 1,  9, 23}},
    {"weighted",      {2,  3, 1, 16, 18}, true},
    {"ignored",       {2,  5, 1, 11, 13}, false, 2},
    {"both",          {2,  3, 1, 24, 36}, true,  0},
    {"ignored_255",   {2, 21, 1,  7,  9}, true,  255},
    {"3d",            {2,  4, 5,  6,  7}, true},
    {"256_classes",   {1, 256, 1, 5,  4}},
    {"focus_2",       {2,  3, 1, 24, 36}, true,  -1,  2},
    {"focus_half",    {3,  4, 1,  9, 23}, false, 255, 0.5F},
    {"focus_one",     {2,  1, 1,  3,  4}, false, -1,  1},
    // clang-format on
};

}  // namespace petaflow::cases
