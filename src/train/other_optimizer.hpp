// The complaint about a checkpoint of a run with another optimizer.
#pragma once

namespace petaflow {

/// What a checkpoint is whose optimizer state does not fit, and what to do.
inline constexpr const char* kOtherOptimizer =
    "of a run with another optimizer; resume with the optimizer.name of its config.toml, or start a new run from its "
    "weights (train.init)";

}  // namespace petaflow
