// Samples of f32 sets as floats.
#pragma once

#include <cstdint>
#include <span>

#include "data/dataset.hpp"

namespace petaflow::test {

struct LabelAndWeight {
  std::int32_t label = 0;
  float weight = 0;
};

/// Reads a sample of a set whose one target is a class.
inline LabelAndWeight read_f32(const Dataset& data, std::int64_t index, std::span<float> pixels) {
  LabelAndWeight sample;
  sample.weight = data.read(
      index, {std::as_writable_bytes(pixels), {std::as_writable_bytes(std::span<std::int32_t>(&sample.label, 1))}});
  return sample;
}

}  // namespace petaflow::test
