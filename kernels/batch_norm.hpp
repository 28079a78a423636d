// Batch normalisation over channels-last tensors: Ioffe & Szegedy 2015 (arXiv:1502.03167), algorithms 1 and 2, as
// torch.nn.BatchNorm3d computes it.
//
// With real pixels i = 1 ... m of a channel, those of slots whose StepState::sample is not negative:
//   mean = sum x_i / m, variance = sum (x_i - mean)^2 / m, xhat = (x - mean) / sqrt(variance + epsilon),
//   y = weight xhat + bias,
//   dx = weight / sqrt(variance + epsilon) (dy - sum dy_i / m - xhat sum (dy_i xhat_i) / m),
//   dweight = sum dy_i xhat_i, dbias = sum dy_i.
// A step is one pass over x for the sums and one for y; backward likewise.  The pass for y is an Epilogue whose z is
// the map of x, so that a residual, pooling, activation and dropout come with it: dy above is dz, the gradient behind
// the map.  Sums are held in f64, in which the square of an f32 is exact: the variance is off by about (mean^2 /
// variance) 1e-16, less than what rounding x to f32 does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/context.hpp"
#include "base/tensor.hpp"
#include "kernels/epilogue.hpp"

namespace petaflow {

/// Statistics that forward makes of a batch and backward needs; floats in MemorySpace.
struct BatchStatistics {
  float* mean = nullptr;      // (C)
  float* rstd = nullptr;      // (C) 1 / sqrt(variance + epsilon)
  float* variance = nullptr;  // (C) with m - 1 instead of m, as running_var takes it; 0 where m is 1
  float* share = nullptr;     // (1) 1 / m; 0: there is no real pixel

  static std::int64_t elements(std::int64_t channels) { return 3 * channels + 1; }
  /// In elements(channels) floats.
  static BatchStatistics in(float* memory, std::int64_t channels) {
    return {memory, memory + channels, memory + 2 * channels, memory + 3 * channels};
  }
};

/// Per channel what multiplies and what is added: z = scale[0] x + offset, dx = scale[0] dz + scale[1] x + offset.
struct ChannelMap {
  float* scale[2] = {nullptr, nullptr};  // (C) each
  float* offset = nullptr;               // (C)

  static std::int64_t elements(std::int64_t channels) { return 3 * channels; }
  static ChannelMap in(float* memory, std::int64_t channels) {
    return {{memory, memory + channels}, memory + 2 * channels};
  }
};

/// Doubles that a set of sums takes: two per channel, and the number of real pixels.
inline std::int64_t batch_norm_sums(std::int64_t channels) { return 2 * channels + 1; }
/// Bytes of scratch of sum_moments().
std::size_t batch_norm_scratch_bytes(int host_parts, const Shape& x);
/// Bytes of scratch of sum_gradients() and apply_gradient_map().
std::size_t batch_norm_scratch_bytes(int host_parts, const EpilogueDesc& behind);

/// sums = [sum x (C), sum x^2 (C), m] of this rank's real pixels, in an order that depends on `host_parts` only.
/// @param host_parts  partial sums on the host
/// @param scratch  batch_norm_scratch_bytes(host_parts, shape of x) of them
void sum_moments(const Context& context, int host_parts, const Tensor& x, double* sums, std::byte* scratch);
/// sums = [sum dz (C), sum dz (x - mean) (C), m]; dz is made again of the gradient behind the epilogue, a few rows at a
/// time.
/// @param behind   what followed the map of x to z, dv_in_f32
/// @param scratch  batch_norm_scratch_bytes(host_parts, behind.desc()) of them
void sum_gradients(const Context& context, int host_parts, const Tensor& x, const Epilogue& behind, const float* mean,
                   double* sums, std::byte* scratch);

/// Written: the statistics of the sums, and the map of x to z.  Where there is no real pixel z is x.
/// @param weight, bias  (C) each, here and below; null: 1 and 0
void map_batch(const Context& context, std::int64_t channels, float epsilon, const double* sums, const float* weight,
               const float* bias, const BatchStatistics& statistics, const ChannelMap& map);
/// Written: the map of x to z by running statistics.
void map_running(const Context& context, std::int64_t channels, float epsilon, const float* mean, const float* variance,
                 const float* weight, const float* bias, const ChannelMap& map);
/// Written: the map of dz and x to dx.
/// @param sums  of sum_gradients(), over all that the statistics are over
void map_gradient(const Context& context, std::int64_t channels, const double* sums, const float* weight,
                  const BatchStatistics& statistics, const ChannelMap& map);

/// Written: the gradients of weight and bias, (C) each.
/// @param sums  of sum_gradients(), of this rank
void write_gradients(const Context& context, std::int64_t channels, const double* sums,
                     const BatchStatistics& statistics, float* weight, float* bias);
/// Written: this micro-batch's share of the running statistics, (C) each, as ParamSpec::running_momentum wants them.
/// @param x  shape, to count the real samples
void write_running_statistics(const Context& context, const Shape& x, const BatchStatistics& statistics, float* mean,
                              float* variance);

/// A gradient that is written, or added to what is there; without data nobody wants it.
struct GradientTarget {
  Tensor tensor;
  bool adds = false;
};

/// dx = scale[0] dz + scale[1] x + offset, 0 in padded slots, and the residual's gradient dz; x, dx and the residual's
/// gradient have the type of the epilogue, each with pixels as far apart as it likes.
/// @param behind, scratch  as in sum_gradients()
void apply_gradient_map(const Context& context, int host_parts, const std::string& label, const ChannelMap& map,
                        const Tensor& x, const Epilogue& behind, const GradientTarget& dx,
                        const GradientTarget& residual, std::byte* scratch);

}  // namespace petaflow
