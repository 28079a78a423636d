// The folder of a run: what it may replace, and what it holds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "io/checkpoint.hpp"
#include "io/metrics_log.hpp"

namespace petaflow {

/// On all ranks: throws a user error where the folder holds something that may not be replaced (without `overwrite`)
/// or gone on with (without `resume`), or could not be written.  Changes nothing.
void check_run_folder(Communicator& comm, const std::string& folder, bool overwrite, bool resume);

/// The checkpoint that a run goes on from.
struct ResumePoint {
  std::string path;
  Checkpoint checkpoint;
};

/// On all ranks: the newest checkpoint of the run folder that is whole; the others are warned of.
std::optional<ResumePoint> find_resume_point(Communicator& comm, const std::string& folder);

/// On all ranks: makes the folder and writes config.toml.  A run from the beginning removes the files of an older
/// one; one resumed after `resumed_step` steps takes back what was logged after them.  The metrics log is given on rank
/// 0, null elsewhere.
std::unique_ptr<MetricsLog> open_run_folder(Communicator& comm, const std::string& folder,
                                            const std::optional<std::int64_t>& resumed_step, const std::string& config);

}  // namespace petaflow
