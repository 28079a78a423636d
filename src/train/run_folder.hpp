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
inline constexpr const char* kManifestFile = "manifest.json";         // write_manifest()
inline constexpr const char* kPerformanceFile = "performance.json";   // write_performance()
inline constexpr const char* kEvaluationFile = "evaluation.json";     // write_evaluation()
inline constexpr const char* kTraceFile = "trace.json";               // StepTrace
inline constexpr const char* kReportFile = "report.html";             // write_report()
inline constexpr const char* kEventsPrefix = "events.out.tfevents.";  // EventFile

/// On all ranks: throws a user error where the folder exists without --overwrite or could not be written.  Changes
/// nothing.
void check_run_folder(Job& job);

/// On all ranks: makes the folder, removes the files of an older run, writes config.toml.  The metrics log is given on
/// rank 0, null elsewhere.
std::unique_ptr<MetricsLog> open_run_folder(Job& job);

/// Who made a result, with what: a JSON object.
std::string provenance(const Job& job);

}  // namespace petaflow
