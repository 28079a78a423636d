// A training by ranks that each know their place.
#pragma once

#include "comm/communicator.hpp"
#include "program/command_line.hpp"
#include "program/configuration.hpp"
#include "program/task.hpp"
#include "report/reporter.hpp"
#include "servers/session.hpp"

namespace petaflow {

/// A worker's place among groups.
struct Groups {
  Communicator& mine;                // the members of its group; where there are none all workers
  ServerSession* servers = nullptr;  // where they share weights so
  Communicator* across = nullptr;    // where they average them: who has this worker's number in each group
};

/// Instead of an exit code: the run goes on from its checkpoint with other groups, Configuration::regroup().
inline constexpr int kOtherGroups = -1;

/// Validates everything, makes the run folder, trains, evaluates and reports; the exit code, or kOtherGroups.
/// @param comm  all ranks that train
int train_on(const CommandLine& line, Configuration& config, Task& task, const Reporter& reporter, Communicator& comm,
             const Groups& groups);

}  // namespace petaflow
