// Sums over pixels: the gradients of biases.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/context.hpp"
#include "base/dtype.hpp"

namespace petaflow {

/// sum[c] = the sum over all pixels of v (pixels, channels; dense), in an order that depends on context.threads only.
/// @param scratch  channel_sum_scratch_bytes(context.threads, channels) of them
void sum_channels(const Context& context, const void* v, DType type, std::int64_t pixels, std::int64_t channels,
                  float* sum, std::byte* scratch);

std::size_t channel_sum_scratch_bytes(int threads, std::int64_t channels);

}  // namespace petaflow
