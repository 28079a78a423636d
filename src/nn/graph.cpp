#include "nn/graph.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace petaflow {

void Graph::append(std::string name, std::unique_ptr<Layer> layer, std::vector<GraphValue> inputs) {
  PETAFLOW_REQUIRE(
      !name.empty() && std::none_of(nodes_.begin(), nodes_.end(), [&](const Node& n) { return n.name == name; }),
      "layer names are unique and not empty, found \"{}\"", name);
  std::vector<Shape> taken;
  for (const GraphValue value : inputs) {
    PETAFLOW_REQUIRE(value.index < shapes_.size(), "layer {}: there is no value {}", name, value.index);
    taken.push_back(shape(value));
  }
  std::vector<Shape> given;
  try {
    given = layer->outputs(taken);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("layer {}: {}", name, error.what()));
  }
  PETAFLOW_REQUIRE(!taken.empty() && !given.empty(), "layer {} takes and gives at least one value", name);
  Node node{std::move(name), std::move(layer), std::move(inputs), {}, taken.front(), given.front()};
  for (const Shape& shape : given) {
    node.outputs.push_back({shapes_.size()});
    shapes_.push_back(shape);
  }
  value_ = node.outputs.front();
  nodes_.push_back(std::move(node));
}

Graph& Graph::mark_output() {
  PETAFLOW_REQUIRE(value_ != input() && std::ranges::find(outputs_, value_) == outputs_.end(),
                   "value {} is the input, or an output already", value_.index);
  outputs_.push_back(value_);
  return *this;
}

std::vector<GraphValue> Graph::outputs() const {
  return outputs_.empty() ? std::vector{GraphValue{shapes_.size() - 1}} : outputs_;
}

}  // namespace petaflow
