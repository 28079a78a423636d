// A network as its author writes it: named layers, each fed by the one before, with the shapes worked out.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "nn/layer.hpp"

namespace petaflow {

class Graph {
 public:
  struct Node {
    std::string name;
    std::unique_ptr<Layer> layer;
    Shape input, output;  // of one sample (n = 1)
  };

  /// @param sample shape of one input sample (n = 1)
  /// @param type   of its numbers; a type other than f32 needs a first layer that reads it
  explicit Graph(const Shape& sample, DType type = DType::kF32) : sample_(sample.with_batch(1)), type_(type) {}

  /// Appends a layer; names are unique.  Throws where the layer does not accept the shape.
  template <class L, class... Args>
  Graph& add(std::string name, Args&&... args) {
    append(std::move(name), std::make_unique<L>(std::forward<Args>(args)...));
    return *this;
  }

  const Shape& sample() const { return sample_; }
  DType sample_type() const { return type_; }
  const Shape& output() const { return nodes_.empty() ? sample_ : nodes_.back().output; }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  void append(std::string name, std::unique_ptr<Layer> layer);

  Shape sample_;
  DType type_;
  std::vector<Node> nodes_;
};

}  // namespace petaflow
