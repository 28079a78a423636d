// Copies between tensors of other types or pixel strides, sums into them, zeros.
#pragma once

#include <string>

#include "base/context.hpp"
#include "base/tensor.hpp"

namespace petaflow {

/// to = from, or to += from; f32 or bf16, rounded to nearest even; the same shape.
void copy_tensor(const Context& context, const std::string& label, const Tensor& from, const Tensor& to, bool adds);

/// tensor = 0; f32 or bf16.
void zero_tensor(const Context& context, const std::string& label, const Tensor& tensor);

}  // namespace petaflow
