// Flat arrays of a network's parameters (weights, moments of the optimizer) between memory and checkpoints.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "io/checkpoint.hpp"
#include "nn/network.hpp"

namespace petaflow {

/// A run folder stands for its checkpoint: "runs/hep" -> "runs/hep/checkpoint.h5".
std::string checkpoint_path(const std::string& run);

/// The checkpoint of rank 0 to all ranks.
void broadcast_checkpoint(Communicator& comm, Checkpoint& checkpoint);

/// The checkpoint in a file, read by rank 0 and sent to all; throws on all ranks alike.
Checkpoint load_checkpoint_everywhere(Communicator& comm, const std::string& path);

/// Elements of a flat array that holds these parameters, which are all of a network.
std::int64_t elements_of(const std::vector<Parameter>& parameters);

/// A flat array (parameter elements, in MemorySpace) cut into one array per parameter, named prefix + its name.
std::vector<NamedArray> arrays_of(const std::vector<Parameter>& parameters, const float* flat,
                                  const std::string& prefix = "");
/// The same of an array in the host's memory.
std::vector<NamedArray> host_arrays_of(const std::vector<Parameter>& parameters, std::span<const float> flat,
                                       const std::string& prefix);
/// The reverse.  Throws user errors naming `path` where names or shapes differ.
void set_from_arrays(const std::vector<Parameter>& parameters, const std::vector<NamedArray>& arrays,
                     const std::string& prefix, const std::string& path, float* flat);

/// The same from among arrays of other names too: how many it took, 0 where no name begins with the prefix.
std::size_t take_arrays(const std::vector<Parameter>& parameters, const std::vector<NamedArray>& arrays,
                        const std::string& prefix, const std::string& path, float* flat);

/// The weights in the order of the model.
std::vector<NamedArray> weights_of(const Network& network);

/// Copies weights into the network and refreshes it.  Throws user errors where names or shapes differ.
void set_weights(Network& network, const Context& context, const std::vector<NamedArray>& weights,
                 const std::string& path);

}  // namespace petaflow
