// The loop of a parameter server's rank.
#pragma once

#include <functional>

#include "comm/transport.hpp"
#include "servers/layer_store.hpp"
#include "servers/protocol.hpp"
#include "servers/served_layer.hpp"

namespace petaflow {

struct ServeOptions {
  MakeLayerStore make_layer;  // optimized_layers()
  ServingOrder order = {};
  /// Called for every gradient after its update, with the layer's number; may be empty.
  std::function<void(std::size_t layer, int group, const LayerHeader& header)> updated = {};
};

/// Keeps this server's layers, and on the first server the coordinator, from when the workers connect until they end;
/// the exit code that they end with.
/// @param all  workers, then servers
int serve(Transport& all, const ServerLayout& layout, const ServeOptions& options);

}  // namespace petaflow
