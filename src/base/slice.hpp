// Ranges of elements of a flat array.
#pragma once

#include <cstdint>

namespace petaflow {

/// Elements [begin, end) of a vector.
struct Slice {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

}  // namespace petaflow
