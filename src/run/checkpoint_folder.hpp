// The checkpoints of a run folder: checkpoint-<steps>.h5, the last few of them, and checkpoint.h5, a link to the
// newest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"

namespace petaflow {

/// The checkpoints with training state, newest first.
std::vector<std::string> checkpoints_in(const std::string& folder);

/// Writes checkpoint-<steps>.h5, points checkpoint.h5 to it, then removes all but this one and the keep - 1 before it:
/// those of later steps are damaged, the run was resumed before them.  At every moment the folder holds the older ones
/// or the new one, whole.  Throws Error as save_checkpoint does; the folder is as it was then.  Returns the path.
std::string save_to_folder(const std::string& folder, std::int64_t step, const Checkpoint& checkpoint,
                           std::int64_t keep);

/// Before a run goes on from the checkpoint of that step: finishes what a killed process began.  Files half written go,
/// and checkpoint.h5 points to that checkpoint.
void put_in_order(const std::string& folder, std::int64_t step);

/// Removes all checkpoints and leftovers.
void remove_checkpoints(const std::string& folder);

}  // namespace petaflow
