// The files that a training writes into its run folder while it goes on: metrics, trace, MLPerf's log, checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "io/metrics_log.hpp"
#include "measure/trace.hpp"
#include "run/mllog.hpp"
#include "train/listener.hpp"

namespace petaflow {

struct RecorderOptions {
  std::string folder;            // of the run, which exists
  std::int64_t trace_steps = 0;  // 0: no trace
  std::int64_t keep = 1;         // checkpoints
  std::string model, config;     // of checkpoints
  std::function<std::string()> provenance;
  MlperfBenchmark benchmark;  // where there is a log for MLPerf
};

/// The listener of rank 0; the other ranks have one that does nothing.  Files that cannot be written are warned of.
class RunRecorder final : public TrainingListener {
 public:
  /// @param metrics, mllog  may be null
  RunRecorder(RecorderOptions options, std::unique_ptr<MetricsLog> metrics, std::unique_ptr<MlLog> mllog);

  void begin() override;
  void end(bool reached_target) override;
  void begin_epoch(std::int64_t epoch) override;
  void end_epoch(std::int64_t epoch) override;
  void begin_step(std::int64_t step) override;
  void end_step() override;
  void begin_validation(std::int64_t epoch) override;
  void end_validation(std::int64_t epoch) override;
  void interval(const IntervalLine& line) override;
  void validated(const ValidationLine& line) override;
  std::string save(std::int64_t step, Checkpoint checkpoint) override;

 private:
  void log(const nlohmann::json& line);
  template <class Part, class Call>
  static void write(std::unique_ptr<Part>& part, const Call& call);

  RecorderOptions options_;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<MlLog> mllog_;
  std::unique_ptr<StepTrace> trace_;
  bool log_failed_ = false;  // the last line could not be written
};

}  // namespace petaflow
