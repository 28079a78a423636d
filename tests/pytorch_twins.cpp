// Prints what export --pytorch writes of every layer case (layer_cases.hpp), as JSON for check_pytorch.py: file, names
// of the parameters in the order of the layers, and the shape of the input, (N, C), (N, C, H, W) or (N, C, D, H, W).
#include <iostream>

#include <nlohmann/json.hpp>

#include "io/safetensors.hpp"
#include "layer_cases.hpp"
#include "nn/pytorch.hpp"

int main() {
  using namespace petaflow;
  nlohmann::json twins;
  for (const cases::LayerCase& c : cases::kLayerCases) {
    Graph graph(c.x);
    c.add(graph);
    nlohmann::json& twin = twins[c.name];
    try {
      twin["file"] = pytorch_twin(graph, c.name, "weights.safetensors");
    } catch (const Error& error) {  // a layer without a line of Python
      twins.erase(c.name);
      std::cerr << "NOT COMPARED: " << c.name << ": " << error.what() << "\n";
      continue;
    }
    twin["parameters"] = nlohmann::json::array();
    for (const Graph::Node& node : graph.nodes()) {
      for (const ParamSpec& spec : node.layer->parameters(node.input)) {
        if (spec.trained()) twin["parameters"].push_back(pytorch_name(node.name + "/" + spec.name));
      }
    }
    twin["input"] = {c.x.n, c.x.c};
    if (pytorch_axes(c.x) == 3) twin["input"].push_back(c.x.d);
    if (pytorch_axes(c.x) > 0) twin["input"].push_back(c.x.h), twin["input"].push_back(c.x.w);
  }
  std::cout << twins.dump() << "\n";
}
