// What a way of updating asks of a network, known from its graph before any of it is made.
#pragma once

#include "nn/graph.hpp"
#include "train/options.hpp"
#include "update/optimizer_options.hpp"

namespace petaflow {

/// Throws a user error where there are more servers than layers, where a layer does not fit into a message, where
/// groups have batch norm over all ranks, and where comm.norm_ranks has no batch norm to be of.
/// @param ranks  of the group that works through a step
void check_scheme(const Graph& graph, const OptimizerOptions& optimizer, const UpdateOptions& update,
                  const CommOptions& comm, int ranks);

}  // namespace petaflow
