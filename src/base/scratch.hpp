// Scratch memory of an operation as named parts, one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"

namespace petaflow {

/// Adds up the parts of an area of memory; each begins at a multiple of 64 bytes.  A user keeps where its parts begin
/// in a struct, and takes them from there alone: `reinterpret_cast<float*>(area + scratch_.sum)`.
class ScratchLayout {
 public:
  /// Where a part of `count` elements begins, in bytes.
  template <class T>
  std::size_t add(std::int64_t count) {
    const std::size_t begin = bytes_;
    bytes_ += padded(static_cast<std::size_t>(count) * sizeof(T));
    return begin;
  }
  /// Size of all parts, a multiple of 64.
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace petaflow
