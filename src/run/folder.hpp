// The folder of a run: what it may replace, and what it holds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "io/checkpoint.hpp"
#include "io/metrics_log.hpp"
#include "io/write_lock.hpp"

namespace petaflow {

/// Purpose for which a command takes a folder.
struct FolderUse {
  bool overwrite = false;  // files of another run may be replaced
  bool resume = false;     // they are gone on with
  bool writes = true;      // false: it is looked at alone
};

/// On all ranks: throws a user error where the folder holds something that may not be replaced or gone on with, cannot
/// be made or written, or is being written by another run.  Changes nothing but that it locks a folder that exists and
/// is to be written (rank 0; null elsewhere and for a new folder).
std::unique_ptr<WriteLock> check_run_folder(Communicator& comm, const std::string& folder, const FolderUse& use);

/// On all ranks: makes the folder and locks it where it is not locked yet; throws a user error where another run has
/// begun in it meanwhile and `overwrite` is false.
void take_new_run_folder(Communicator& comm, const std::string& folder, bool overwrite,
                         std::unique_ptr<WriteLock>& lock);

/// The checkpoint that a run goes on from.
struct ResumePoint {
  std::string path;
  Checkpoint checkpoint;
};

/// On all ranks: the newest checkpoint of the run folder that is whole; the others are warned of.
std::optional<ResumePoint> find_resume_point(Communicator& comm, const std::string& folder);

/// On all ranks: writes config.toml into the folder, which is locked.  A run from the beginning removes the files of an
/// older one; one resumed after `resumed_step` steps takes back what was logged after them.  The metrics log is given
/// on rank 0, null elsewhere.
std::unique_ptr<MetricsLog> open_run_folder(Communicator& comm, const std::string& folder,
                                            const std::optional<std::int64_t>& resumed_step, const std::string& config);

}  // namespace petaflow
