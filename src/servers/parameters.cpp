// What sessions say to servers about the parameters of a network.
#include <algorithm>

#include "comm/reduction_plan.hpp"
#include "nn/network.hpp"
#include "servers/session.hpp"

namespace petaflow {

std::vector<Slice> layers_of(const std::vector<Parameter>& parameters, const ServerLayout& layout) {
  std::vector<Slice> layers;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (i == 0 || parameter.layer != parameters[i - 1].layer) layers.push_back({parameter.offset, 0});
    layers.back().end = parameter.offset + parameter.spec.elements();
  }
  if (!layout.cut_layers) return layers;
  const std::int64_t all = layers.empty() ? 0 : layers.back().end;
  std::vector<Slice> cut;
  for (const Slice& layer : layers) {
    const std::int64_t parts = std::min(layer.size(), (layer.size() * layout.servers + all - 1) / all);
    for (std::int64_t part = 0; part < parts; ++part) cut.push_back(share_of(layer, part, parts));
  }
  return cut;
}

void ServerSession::connect(const std::vector<Parameter>& parameters, double momentum) {
  const std::vector<Slice> whole = layers_of(parameters), layers = layers_of(parameters, layout_);
  std::vector<ServedParameter> described;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Slice& layer = layers[i];
    for (const Parameter& parameter : parameters) {
      const std::int64_t begin = std::max(layer.begin, parameter.offset);
      const std::int64_t end = std::min(layer.end, parameter.offset + parameter.spec.elements());
      if (begin >= end) continue;
      described.push_back(
          {static_cast<std::int64_t>(i), end - begin, parameter.spec.running_momentum, parameter.spec.decays});
    }
    const Slice& of = *(std::ranges::upper_bound(whole, layer.begin, {}, &Slice::begin) - 1);
    const auto first = std::ranges::find(parameters, of.begin, &Parameter::offset);
    names.push_back(first->name.substr(0, first->name.rfind('/')));
    if (layer.size() < of.size()) names.back() += fmt::format("[{}:{}]", layer.begin - of.begin, layer.end - of.begin);
  }
  connect(described, std::move(names), momentum);
}

}  // namespace petaflow
