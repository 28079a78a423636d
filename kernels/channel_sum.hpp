// Sums over pixels: the gradients of biases.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/context.hpp"
#include "base/dtype.hpp"

namespace petaflow {

/// sum[c] = the sum over all pixels of v (pixels, channels; dense), in an order that depends on `host_parts` only.
/// @param host_parts  partial sums on the host
/// @param scratch  channel_sum_scratch_bytes(host_parts, pixels, channels) of them
void sum_channels(const Context& context, int host_parts, const void* v, DType type, std::int64_t pixels,
                  std::int64_t channels, float* sum, std::byte* scratch);

std::size_t channel_sum_scratch_bytes(int host_parts, std::int64_t pixels, std::int64_t channels);

}  // namespace petaflow
