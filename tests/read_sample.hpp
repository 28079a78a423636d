// Samples of f32 sets as floats.
#pragma once

#include <span>

#include "data/dataset.hpp"

namespace petaflow::test {

inline Sample read_f32(const Dataset& data, std::int64_t index, std::span<float> pixels) {
  return data.read(index, std::as_writable_bytes(pixels), {});
}

}  // namespace petaflow::test
