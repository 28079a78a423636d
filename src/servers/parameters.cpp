// What sessions say to servers about the parameters of a network.
#include <algorithm>

#include "nn/network.hpp"
#include "servers/session.hpp"

namespace petaflow {

std::vector<Slice> layers_of(const std::vector<Parameter>& parameters) {
  std::vector<Slice> layers;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (i == 0 || parameter.layer != parameters[i - 1].layer) layers.push_back({parameter.offset, 0});
    layers.back().end = parameter.offset + parameter.spec.elements();
  }
  return layers;
}

void ServerSession::connect(const std::vector<Parameter>& parameters) {
  const std::vector<Slice> layers = layers_of(parameters);
  std::vector<ServedParameter> described;
  for (const Parameter& parameter : parameters) {
    const auto layer = std::ranges::upper_bound(layers, parameter.offset, {}, &Slice::begin) - layers.begin() - 1;
    described.push_back({layer, parameter.spec.elements(), parameter.spec.running_momentum, parameter.spec.decays});
  }
  std::vector<std::string> names;
  for (const Slice& layer : layers) {
    const auto first = std::ranges::find(parameters, layer.begin, &Parameter::offset);
    names.push_back(first->name.substr(0, first->name.rfind('/')));
  }
  connect(described, std::move(names));
}

}  // namespace petaflow
