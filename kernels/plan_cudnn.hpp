// Execution plans of cuDNN for convolutions (cuDNN 9, "Graph API"), made from the properties of a device alone: plans
// for any GPU are made on a machine without one.  execution_cudnn.hpp runs them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace petaflow::cudnn {

enum class Element { kF32, kBf16, kFp16 };

/// A tensor (N, C, [D,] H, W), or weights (K, C / groups, [taps along D,] H, W): elements in each direction, and from
/// one to the next.  Its first element lies at a multiple of 16 bytes.
struct Tensor {
  std::vector<std::int64_t> size, stride;
  Element element = Element::kF32;

  bool operator==(const Tensor&) const = default;
};

/// What one call computes: y = conv(x, w), dx = conv^T(dy, w), dw(x, dy).
enum class Computes { kY, kX, kW };

/// One call: the tensors of a convolution and how its window moves along [D,] H, W.  Sums are in f32; the same call
/// gives the same bits again.
struct Convolution {
  Computes computes = Computes::kY;
  Tensor x, w, y;
  std::vector<std::int64_t> pad_begin, pad_end, stride, dilation;
  bool tf32 = false;  // products of f32 may be of numbers that are rounded to TF32

  bool operator==(const Convolution&) const = default;
};

/// Numbers by which a plan knows its tensors.
enum TensorId : std::int64_t { kX = 1, kW = 2, kY = 3 };

struct Plan {
  std::string refusal = {};    // empty: there is a plan; otherwise at what step cuDNN says no, and why
  std::string engine = {};     // cuDNN's name of it, with its settings
  std::int64_t workspace = 0;  // bytes, at least: Execution::workspace()
  std::string json = {};       // the plan itself, as cuDNN writes it
};

/// The plan that cuDNN holds for the fastest one, or one that it holds for slower.
/// @param device  properties as cuDNN writes them, JSON: device_properties() of execution_cudnn.hpp
/// @param place   in cuDNN's order of the plans that there are, from 0
Plan make_plan(const Convolution& convolution, const std::string& device, std::int64_t place = 0);

}  // namespace petaflow::cudnn
