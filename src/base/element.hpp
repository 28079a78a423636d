// Kernels by the element type of the tensors that they work on.
#pragma once

#include "base/context.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"

namespace petaflow {

/// Whether kernels take fp16: those of GPUs do.  The host's have bf16, which takes as many bytes and needs no loss
/// scale: its programs do without a third of each kernel.
inline constexpr bool kTakesFp16 = !kOnHost;

/// f(T{}): with a number of the type.
template <class F>
void with_element(DType type, const F& f) {
  if (type == DType::kF32) return f(float{});
  if (type == DType::kBf16) return f(Bf16{});
  if constexpr (kTakesFp16) {
    if (type == DType::kFp16) return f(Fp16{});
  }
  PETAFLOW_REQUIRE(false, "a kernel for tensors of {}", name_of(type));
}

}  // namespace petaflow
