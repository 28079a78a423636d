// Names of the files in the folder of a run.
#pragma once

namespace petaflow {

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

}  // namespace petaflow
