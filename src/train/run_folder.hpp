// The folder of a run: what it may replace, and what it holds.
#pragma once

#include <memory>
#include <string>

#include "io/metrics_log.hpp"
#include "train/job.hpp"

namespace petaflow {

/// Files of a run folder.
inline constexpr const char* kConfigFile = "config.toml";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kCheckpointFile = "checkpoint.h5";

/// On all ranks: throws a user error where the folder exists without --overwrite or could not be written.  Changes
/// nothing.
void check_run_folder(Job& job);

/// On all ranks: makes the folder, removes the files of an older run, writes config.toml.  The metrics log is given on
/// rank 0, null elsewhere.
std::unique_ptr<MetricsLog> open_run_folder(Job& job);

/// Who made a result, with what: a JSON object.
std::string provenance(const Job& job);

}  // namespace petaflow
