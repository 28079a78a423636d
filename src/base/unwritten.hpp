// The content of memory that nobody has written.
#pragma once

#include <cstdint>

namespace petaflow {

/// Its 16-bit words: NaN as bf16, f16, f32 and f64, and unlikely whole numbers.
inline constexpr std::uint16_t kUnwritten = 0xFFF9;

}  // namespace petaflow
