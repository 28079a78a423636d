// Layers of a server that an optimizer updates, in the memory where kernels run.
#pragma once

#include "servers/layer_store.hpp"
#include "update/optimizer_options.hpp"

namespace petaflow {

MakeLayerStore optimized_layers(const OptimizerOptions& options, int groups);

}  // namespace petaflow
