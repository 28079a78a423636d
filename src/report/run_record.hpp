// The traces of a run in its folder, for reports: whatever is there, of a finished run, one that goes on, or one that
// was killed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace petaflow {

/// A line of metrics.jsonl: means over the steps of an interval.
struct TrainingPoint {
  std::int64_t step = 0, epoch = 0;                                         // epoch from 1
  double loss = 0, lr = 0, samples_per_s = 0, gflops = 0, noise_scale = 0;  // NaN where the line has none
};

struct ValidationPoint {
  std::int64_t step = 0, epoch = 0;
  std::map<std::string, double> metrics;
};

/// A trial of update.tune_groups.
struct TuningPoint {
  std::int64_t step = 0, epoch = 0;
  std::int64_t groups = 0;
  double momentum = 0, lr = 0, loss = 0;  // loss: NaN where the trial failed
  bool chosen = false;
};

struct RunRecord {
  std::string folder, name;
  std::string config;          // TOML, all keys; empty: not there
  nlohmann::json manifest;     // null: not there, as the others
  nlohmann::json performance;  // written when the training has ended (write_performance)
  nlohmann::json trace;        // of a few steps (StepTrace)
  nlohmann::json evaluation;   // written at the end of the run (write_evaluation)
  std::vector<TrainingPoint> training;
  std::vector<ValidationPoint> validation;
  std::vector<TuningPoint> tuning;

  bool finished() const { return performance.is_object(); }
};

}  // namespace petaflow
