#include "nn/graph.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace petaflow {

void Graph::append(std::string name, std::unique_ptr<Layer> layer) {
  PETAFLOW_REQUIRE(
      !name.empty() && std::none_of(nodes_.begin(), nodes_.end(), [&](const Node& n) { return n.name == name; }),
      "layer names are unique and not empty, found \"{}\"", name);
  const Shape input = output();
  try {
    const Shape out = layer->output(input);
    nodes_.push_back({std::move(name), std::move(layer), input, out});
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("layer {}: {}", name, error.what()));
  }
}

}  // namespace petaflow
