// The folder of a run: what it may replace, and what it holds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/checkpoint.hpp"
#include "io/folder_lock.hpp"
#include "io/metrics_log.hpp"
#include "program/job.hpp"

namespace petaflow {

/// Files of a run folder.
inline constexpr const char* kConfigFile = "config.toml";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kManifestFile = "manifest.json";         // write_manifest()
inline constexpr const char* kPerformanceFile = "performance.json";   // write_performance()
inline constexpr const char* kEvaluationFile = "evaluation.json";     // write_evaluation()
inline constexpr const char* kTraceFile = "trace.json";               // StepTrace
inline constexpr const char* kReportFile = "report.html";             // write_report()
inline constexpr const char* kTuningFile = "tuning.json";             // write_tuning()
inline constexpr const char* kMllogFile = "mllog.txt";                // MlLog
inline constexpr const char* kEventsPrefix = "events.out.tfevents.";  // EventFile

/// On all ranks: throws a user error where the folder exists without --overwrite or --resume, could not be written, or
/// is being written by another run.  Changes nothing but that it locks a folder that exists (rank 0; null elsewhere,
/// for a new folder, and with --check).
std::unique_ptr<FolderLock> check_run_folder(Job& job);

/// On all ranks: makes the folder and locks it where it is not locked yet; throws a user error where another run has
/// begun in it meanwhile.
void take_new_run_folder(Job& job, std::unique_ptr<FolderLock>& lock);

/// The checkpoint that a run goes on from.
struct ResumePoint {
  std::string path;
  Checkpoint checkpoint;
};

/// On all ranks: with --resume, the newest checkpoint of the run folder that is whole; the others are warned of.
std::optional<ResumePoint> find_resume_point(Job& job);

/// On all ranks: writes config.toml into the folder, which is locked.  A run from the beginning removes the files of an
/// older one; one resumed after `resumed_step` steps takes back what was logged after them.  The metrics log is given
/// on rank 0, null elsewhere.
std::unique_ptr<MetricsLog> open_run_folder(Job& job, const std::optional<std::int64_t>& resumed_step);

/// Who made a result, with what: a JSON object.
std::string provenance(const Job& job);

}  // namespace petaflow
