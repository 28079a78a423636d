// The files that a training writes into its run folder while it goes on: metrics, trace, MLPerf's log, checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "io/metrics_log.hpp"
#include "measure/trace.hpp"
#include "run/mllog.hpp"
#include "run/mlperf_benchmark.hpp"
#include "train/listener.hpp"

namespace petaflow {

struct RecorderOptions {
  std::string folder;         // of the run, which exists
  std::int64_t keep = 1;      // checkpoints
  std::string model, config;  // of checkpoints
  std::function<std::string()> provenance;
  MlperfBenchmark benchmark;  // where there is a log for MLPerf
};

/// The listener of ranks that have nothing to write but their part of the trace.
class TraceRecorder : public TrainingListener {
 public:
  /// @param steps  in the trace; 0: none
  /// @param path   of rank 0's trace; empty elsewhere
  TraceRecorder(std::int64_t steps, std::string path) : steps_(steps), path_(std::move(path)) {}

  void begin() override;
  void end(bool reached_target) override;
  void begin_step(std::int64_t step) override;
  void end_step() override;
  /// Writes the trace of all ranks.  After end(), on all ranks.
  void write_trace(Communicator& comm);

 private:
  std::int64_t steps_;
  std::string path_;
  std::unique_ptr<StepTrace> trace_;
};

/// The listener of rank 0.  Files that cannot be written are warned of.
class RunRecorder final : public TraceRecorder {
 public:
  /// @param metrics, mllog  may be null
  RunRecorder(RecorderOptions options, std::int64_t trace_steps, std::unique_ptr<MetricsLog> metrics,
              std::unique_ptr<MlLog> mllog);

  void begin() override;
  void end(bool reached_target) override;
  void begin_epoch(std::int64_t epoch, std::int64_t batch) override;
  void end_epoch(std::int64_t epoch) override;
  void begin_validation(std::int64_t epoch) override;
  void end_validation(std::int64_t epoch) override;
  void interval(const IntervalLine& line) override;
  void validated(const ValidationLine& line) override;
  void tuned(const TuningLine& line) override;
  std::string save(std::int64_t step, Checkpoint checkpoint) override;

 private:
  void log(const nlohmann::json& line);
  template <class Call>
  void write(const Call& call);

  RecorderOptions options_;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<MlLog> mllog_;
  bool log_failed_ = false;  // the last line could not be written
};

}  // namespace petaflow
