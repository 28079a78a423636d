// A network as its author writes it: a directed acyclic graph of values that named layers take and give, with the
// shapes worked out.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "nn/layer.hpp"

namespace petaflow {

/// A value of a graph, by its number: what a layer gives, or, number 0, the network's input.
struct GraphValue {
  std::size_t index = 0;
  bool operator==(const GraphValue&) const = default;
};

/// Layers are appended behind the current value, which is then what the new one gives:
///
///     Graph graph(sample);
///     graph.add<Conv>("conv1", ...).add<Relu>("relu1");
///     const GraphValue skip = graph.value();
///     graph.add<Conv>("conv2", ...);
///     graph.join<Add>("sum", {graph.value(), skip}).add<Relu>("relu2");
///
/// A value that nobody uses must be an output; without any, the last value is the only one.
class Graph {
 public:
  struct Node {
    std::string name;
    std::unique_ptr<Layer> layer;
    std::vector<GraphValue> inputs, outputs;
    Shape input, output;  // of one sample (n = 1), of the first of each
  };

  /// @param sample shape of one input sample (n = 1)
  /// @param type   of its numbers; a type other than f32 needs a first layer that reads it
  explicit Graph(const Shape& sample, DType type = DType::kF32) : type_(type) {
    shapes_.push_back(sample.with_batch(1));
  }

  /// Appends a layer behind the current value; names are unique.  Throws where the layer does not accept the shape.
  template <class L, class... Args>
  Graph& add(std::string name, Args&&... args) {
    return join<L>(std::move(name), {value_}, std::forward<Args>(args)...);
  }
  /// Appends a layer that takes these values; the first that it gives becomes the current one, nodes().back() knows
  /// all.
  template <class L, class... Args>
  Graph& join(std::string name, std::vector<GraphValue> inputs, Args&&... args) {
    append(std::move(name), std::make_unique<L>(std::forward<Args>(args)...), std::move(inputs));
    return *this;
  }
  /// Makes a value the current one: a branch begins.
  Graph& at(GraphValue value) {
    value_ = value;
    return *this;
  }
  /// The current value is an output of the network, in the order of these calls.
  Graph& mark_output();

  static constexpr GraphValue input() { return {0}; }
  GraphValue value() const { return value_; }
  const Shape& sample() const { return shapes_.front(); }
  DType sample_type() const { return type_; }
  const Shape& shape(GraphValue value) const { return shapes_[value.index]; }  // n = 1
  std::size_t values() const { return shapes_.size(); }
  std::vector<GraphValue> outputs() const;
  /// Shape of an output.
  const Shape& output(std::size_t index = 0) const { return shape(outputs()[index]); }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  void append(std::string name, std::unique_ptr<Layer> layer, std::vector<GraphValue> inputs);

  DType type_;
  std::vector<Shape> shapes_;  // of the values
  std::vector<Node> nodes_;
  std::vector<GraphValue> outputs_;
  GraphValue value_;
};

}  // namespace petaflow
