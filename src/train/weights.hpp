// The weights of a network between memory and checkpoints.
#pragma once

#include <string>

#include "comm/communicator.hpp"
#include "io/checkpoint.hpp"
#include "nn/network.hpp"

namespace petaflow {

/// A run folder stands for its checkpoint: "runs/hep" -> "runs/hep/checkpoint.h5".
std::string checkpoint_path(const std::string& run);

/// The weights in the order of the model.
std::vector<NamedArray> weights_of(const Network& network);

/// Copies the checkpoint's weights into the network and refreshes it.  Throws user errors where names or shapes differ.
void set_weights(Network& network, const Context& context, const Checkpoint& checkpoint, const std::string& path);

}  // namespace petaflow
