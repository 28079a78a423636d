// A network as a Python module: every layer says what it is in PyTorch, and the graph says how they are put together.
// There a value of one pixel is (N, C), a plane (N, C, H, W), anything else (N, C, D, H, W).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/shape.hpp"

namespace petaflow {

class Graph;

/// A value of a network: the Python expression for it, and its shape.
struct PytorchValue {
  std::string text;
  Shape shape;
};

/// A layer in PyTorch.
struct PytorchLayer {
  std::string module;  // makes the nn.Module that has the layer's parameters, under the same names; empty: it has none
  std::string value;   // what the layer gives, from what it takes
};

/// How many axes of pixels a value has: 0, 2 or 3.
int pytorch_axes(const Shape& x);

/// A value of `from` axes of pixels as one of `to`; axes that go or come are 1 pixel long.
std::string pytorch_with_axes(const std::string& text, int from, int to);

/// "(3, 3)" of two axes, "(1, 3, 3)" of three.
std::string pytorch_tuple(const Extent& extent, int axes);

/// ", stride=(2, 2)"; nothing where that is PyTorch's default.
std::string pytorch_argument(const std::string& name, const Extent& extent, const Extent& usual, int axes);

/// Whether Python takes a text as the name of a module, a variable or an attribute.
bool is_python_name(std::string_view name);

/// A file that defines the network as nn.Module `Network` and load(), which gives it the weights of a file of
/// safetensors.  Throws a user error naming the layer where one does not say what it is in PyTorch.
/// @param head     sentences for the head of the file
/// @param weights  file of safetensors beside it
std::string pytorch_twin(const Graph& graph, const std::string& head, const std::string& weights);

}  // namespace petaflow
