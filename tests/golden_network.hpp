// What tests of whole networks share: their size, a network whose every layer is seen, and comparison with the digests
// that tests/golden/make_*_golden.py keep of large arrays.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "nn/graph.hpp"

namespace petaflow::testing_support {

struct NetworkSize {
  std::int64_t weights = 0;  // trained
  double flop = 0;           // forward, per sample
};

inline NetworkSize size_of(const Graph& graph) {
  NetworkSize size;
  for (const Graph::Node& node : graph.nodes()) {
    for (const ParamSpec& spec : node.layer->parameters(node.input))
      size.weights += spec.trained() ? spec.elements() : 0;
    size.flop += node.layer->cost(node.input).flop;
  }
  return size;
}

inline const Graph::Node& node(const Graph& graph, const std::string& name) {
  return *std::ranges::find(graph.nodes(), name, &Graph::Node::name);
}

/// A layer of another graph.
class Borrowed final : public Layer {
 public:
  explicit Borrowed(const Layer& layer) : layer_(layer) {}
  std::vector<Shape> outputs(std::span<const Shape> x) const override { return layer_.outputs(x); }
  std::vector<ParamSpec> parameters(const Shape& x) const override { return layer_.parameters(x); }
  void lower(Lowering& ops) const override { layer_.lower(ops); }

 private:
  const Layer& layer_;
};

/// The root mean square and evenly spaced elements, as the golden file has them; elements to 1e-4 of themselves or of
/// the root mean square, or of `size`.
inline void expect_digest(const nlohmann::json& golden, std::span<const float> values, const std::string& what,
                          double size = 0) {
  const auto count = std::ssize(values);
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  const double rms = golden[0].get<double>();
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(count)), rms, 1e-4 * std::max(size, rms)) << what;
  const auto elements = static_cast<std::int64_t>(golden.size()) - 1;
  for (std::int64_t k = 0; k < elements; ++k) {
    const double expected = golden[static_cast<std::size_t>(k + 1)].get<double>();
    EXPECT_NEAR(static_cast<double>(values[static_cast<std::size_t>((count - 1) * k / (elements - 1))]), expected,
                1e-4 * std::max({size, rms, std::abs(expected)}))
        << what << " element " << k;
  }
}

}  // namespace petaflow::testing_support
