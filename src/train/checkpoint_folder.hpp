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

/// Writes checkpoint-<steps>.h5, points checkpoint.h5 to it, then removes all but the newest `keep`, and those of later
/// steps, which a resumed run passed over as damaged.  At every moment the folder holds the older ones or the new one,
/// whole.  Throws Error as save_checkpoint does; the folder is as it
/// was then.  Returns the path.
std::string save_to_folder(const std::string& folder, std::int64_t step, const Checkpoint& checkpoint,
                           std::int64_t keep);

/// Removes what a killed process left half written.
void remove_leftovers(const std::string& folder);

/// Removes all checkpoints and leftovers.
void remove_checkpoints(const std::string& folder);

}  // namespace petaflow
