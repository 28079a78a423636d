#include "nn/pytorch.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "nn/graph.hpp"

namespace petaflow {

PytorchLayer Layer::pytorch(const std::string& /*self*/, std::span<const PytorchValue> /*x*/) const {
  user_error("has no PyTorch twin: it does not override Layer::pytorch()");
}

int pytorch_axes(const Shape& x) { return x.d > 1 ? 3 : x.pixels() > 1 ? 2 : 0; }

std::string pytorch_with_axes(const std::string& text, int from, int to) {
  if (from == to) return text;
  if (from == 0) return text + (to == 2 ? "[:, :, None, None]" : "[:, :, None, None, None]");
  if (to == 0) return text + ".flatten(1)";
  return text + (to == 3 ? ".unsqueeze(2)" : ".squeeze(2)");
}

std::string pytorch_tuple(const Extent& extent, int axes) {
  return axes == 3 ? fmt::format("({}, {}, {})", extent.d, extent.h, extent.w)
                   : fmt::format("({}, {})", extent.h, extent.w);
}

std::string pytorch_argument(const std::string& name, const Extent& extent, const Extent& usual, int axes) {
  return extent == usual ? "" : fmt::format(", {}={}", name, pytorch_tuple(extent, axes));
}

bool is_python_name(std::string_view name) {
  static constexpr std::array<std::string_view, 35> kKeywords = {
      "False", "None",     "True",     "and",    "as",   "assert", "async",  "await",   "break",
      "class", "continue", "def",      "del",    "elif", "else",   "except", "finally", "for",
      "from",  "global",   "if",       "import", "in",   "is",     "lambda", "not",     "or",
      "pass",  "raise",    "nonlocal", "return", "try",  "while",  "with",   "yield"};
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::ranges::all_of(name, fits) &&
         std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::ranges::find(kKeywords, name) == kKeywords.end();
}

namespace {

/// Whether every torch.nn.Module has an attribute of the name, which hides a part called so.
bool is_of_module(std::string_view name) {
  static constexpr std::string_view kNames[] = {"T_destination",
                                                "add_module",
                                                "apply",
                                                "bfloat16",
                                                "buffers",
                                                "call_super_init",
                                                "children",
                                                "compile",
                                                "cpu",
                                                "cuda",
                                                "double",
                                                "dump_patches",
                                                "eval",
                                                "extra_repr",
                                                "float",
                                                "forward",
                                                "get_buffer",
                                                "get_extra_state",
                                                "get_parameter",
                                                "get_submodule",
                                                "half",
                                                "ipu",
                                                "load_state_dict",
                                                "modules",
                                                "mtia",
                                                "named_buffers",
                                                "named_children",
                                                "named_modules",
                                                "named_parameters",
                                                "parameters",
                                                "requires_grad_",
                                                "set_extra_state",
                                                "set_submodule",
                                                "share_memory",
                                                "state_dict",
                                                "to",
                                                "to_empty",
                                                "train",
                                                "training",
                                                "type",
                                                "xpu",
                                                "zero_grad"};
  return name.starts_with("register_") || std::ranges::find(kNames, name) != std::end(kNames);
}

/// The expression for a layer's module, whose parameters are named by it: self.conv1, getattr(self.block, "1").conv,
/// self._modules["half"].
std::string module_of(const std::string& layer) {
  std::string text = "self";
  for (std::size_t begin = 0; begin <= layer.size();) {
    const std::size_t end = std::min(layer.find('/', begin), layer.size());
    const std::string part = layer.substr(begin, end - begin);
    text = is_of_module(part)     ? fmt::format("{}._modules[\"{}\"]", text, part)
           : is_python_name(part) ? text + "." + part
                                  : fmt::format("getattr({}, \"{}\")", text, part);
    begin = end + 1;
  }
  return text;
}

/// The line that makes it.
std::string assignment(const std::string& layer, const std::string& module) {
  const std::size_t slash = layer.rfind('/');
  const std::string owner = slash == std::string::npos ? "self" : module_of(layer.substr(0, slash));
  const std::string name = slash == std::string::npos ? layer : layer.substr(slash + 1);
  if (is_of_module(name)) return fmt::format("{}._modules[\"{}\"] = {}", owner, name, module);
  return is_python_name(name) ? fmt::format("{}.{} = {}", owner, name, module)
                              : fmt::format("{}.add_module(\"{}\", {})", owner, name, module);
}

std::string variable_of(GraphValue value) { return fmt::format("x{}", value.index); }

/// "(N, 3, 64, 64)"
std::string shape_of(const Shape& shape) {
  const int axes = pytorch_axes(shape);
  if (axes == 0) return fmt::format("(N, {})", shape.c);
  return axes == 2 ? fmt::format("(N, {}, {}, {})", shape.c, shape.h, shape.w)
                   : fmt::format("(N, {}, {}, {}, {})", shape.c, shape.d, shape.h, shape.w);
}

PytorchLayer layer_of(const Graph& graph, const Graph::Node& node) {
  std::vector<PytorchValue> x;
  for (const GraphValue value : node.inputs) x.push_back({variable_of(value), graph.shape(value)});
  try {
    return node.layer->pytorch(module_of(node.name), x);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("layer {}: {}", node.name, error.what()));
  }
}

/// For a string literal of Python.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string pytorch_twin(const Graph& graph, const std::string& head, const std::string& weights) {
  std::vector<std::pair<std::string, std::string>> modules;  // by the layer's name
  std::string forward;
  for (const Graph::Node& node : graph.nodes()) {
    const PytorchLayer layer = layer_of(graph, node);
    std::vector<std::string> given;
    for (const GraphValue value : node.outputs) given.push_back(variable_of(value));
    forward += fmt::format("        {} = {}  # {}{}\n", fmt::join(given, ", "), layer.value,
                           layer.module.empty() ? node.name + ": " : "", shape_of(node.output));
    if (!layer.module.empty()) modules.emplace_back(node.name, layer.module);
  }
  // A layer with a / in its name is part of a module, which is made before its parts.
  const std::size_t layers = modules.size();
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string name = modules[i].first;
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      const std::string whole = name.substr(0, slash);
      if (std::ranges::find(modules, whole, &std::pair<std::string, std::string>::first) == modules.end()) {
        modules.emplace_back(whole, "nn.Module()");
      }
    }
  }
  std::ranges::stable_sort(modules, {}, [](const auto& module) { return std::ranges::count(module.first, '/'); });
  std::string init;
  for (const auto& [name, module] : modules) init += fmt::format("        {}\n", assignment(name, module));

  std::vector<std::string> outputs, shapes;
  for (const GraphValue value : graph.outputs()) {
    outputs.push_back(variable_of(value));
    shapes.push_back(shape_of(graph.shape(value)));
  }
  return fmt::format(
      R"("""{head}

load() gives the network of this file the weights of {weights}, which lies beside it.
"""
import pathlib

import torch
import torch.nn.functional as F
from torch import nn


class Network(nn.Module):
    """Takes {input}, gives {outputs}."""

    def __init__(self):
        super().__init__()
{init}
    def forward(self, x0):
{forward}        return {result}


def load(path=pathlib.Path(__file__).with_name("{weights}")):
    """The trained network, set to evaluate."""
    from safetensors.torch import load_file

    network = Network()
    network.load_state_dict(load_file(path))
    return network.eval()
)",
      fmt::arg("head", escaped(head)), fmt::arg("weights", escaped(weights)),
      fmt::arg("input", shape_of(graph.sample())), fmt::arg("outputs", fmt::join(shapes, ", ")), fmt::arg("init", init),
      fmt::arg("forward", forward), fmt::arg("result", fmt::join(outputs, ", ")));
}

}  // namespace petaflow
