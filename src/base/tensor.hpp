// A tensor: shape, element type, pixel stride and a pointer into memory that somebody else owns (the arena).
#pragma once

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/shape.hpp"

namespace petaflow {

/// Channels-last tensor (N, D, H, W, C).  Pixels lie pixel_stride elements apart, so that a tensor may be a slice of
/// the channels of a wider buffer (the pointer then includes the channel offset).
struct Tensor {
  Shape shape;
  DType type = DType::kF32;
  std::int64_t pixel_stride = 0;
  void* data = nullptr;

  /// A dense tensor over `memory`.
  static Tensor dense(const Shape& shape, DType type, void* memory) { return {shape, type, shape.c, memory}; }

  std::int64_t pixels() const { return shape.n * shape.pixels(); }  // of all samples
  std::size_t size_bytes() const { return static_cast<std::size_t>(pixels() * pixel_stride) * size_of(type); }

  /// The elements; the type must be the stored one.
  template <class T>
  T* as() const {
    PETAFLOW_REQUIRE(kDTypeOf<T> == type, "a tensor of {}", name_of(type));
    return static_cast<T*>(data);
  }
};

}  // namespace petaflow
