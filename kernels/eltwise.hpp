// Element-wise operations on tensors, whose pixels may lie apart (slices of the channels of a wider buffer).
#pragma once

#include "base/context.hpp"
#include "base/tensor.hpp"

namespace petaflow {

/// to = from, converted where the types differ (f32 to bf16 rounds to nearest even).  Shapes must be equal.
void cast(const Context& context, const Tensor& from, const Tensor& to);

/// y += x in f32, rounded to the type of y.  Shapes must be equal, types may differ.
void add(const Context& context, const Tensor& x, const Tensor& y);

/// x = value in all channels of the tensor; what lies between its pixels is not touched.
void fill(const Context& context, const Tensor& x, float value);

}  // namespace petaflow
