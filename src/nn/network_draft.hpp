// The first step from layers to stages: which operations run as one stage, and which values they pass on.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "nn/fusion.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

/// A stage of which the values are known: to be made from `fusion`, or `own`.
struct StageDraft {
  LoweredStage lowered;  // without its stage
  std::unique_ptr<Fusion> fusion = nullptr;
  std::unique_ptr<Stage> own = nullptr;  // that a layer brings, or a copy
};

struct NetworkDraft {
  std::vector<LoweredValue> values;  // the first is the input
  std::vector<StageDraft> stages;    // each behind those whose values it takes
  std::vector<std::size_t> outputs;  // of the network
};

/// Finds all values, and where concatenations let them lie in one memory.  Throws a user error where a value is neither
/// used nor an output.
/// @param parameters  for each node those of its layer, in the order of Layer::parameters()
NetworkDraft draft_network(const Graph& graph, const std::vector<std::vector<StageParameter>>& parameters,
                           const NetworkOptions& options);

}  // namespace petaflow
