// The results that a run leaves in its folder when its training has ended, for reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "metrics/evaluator.hpp"
#include "train/train_step.hpp"
#include "train/trainer.hpp"

namespace petaflow {

/// Who trained, how.
struct Trainers {
  int ranks = 1, threads_per_rank = 1;
  std::int64_t batch = 1;
  double peak_gflops = 0;  // of the threads of rank 0, in the precision of the run
};

/// performance.json: how the training ended, rates, where the time went, the stages.
void write_performance(const std::string& folder, const FitResult& result, TrainStep& step, const Trainers& trainers);

/// An evaluation of the trained network.
struct EvaluationRecord {
  std::string set;                            // "data.test"
  std::vector<std::string> files;             // of it
  std::vector<std::string> seen_in_training;  // of these
  std::int64_t samples = 0;
  double loss = 0;
  Evaluation evaluation;
  nlohmann::json results, curves;  // of the application's report
};

/// evaluation.json.
void write_evaluation(const std::string& folder, const EvaluationRecord& record);

}  // namespace petaflow
