// How the predictions of the CosmoFlow application are evaluated.
#pragma once

#include <string>
#include <vector>

#include "cosmoflow/options.hpp"
#include "metrics/evaluator.hpp"
#include "metrics/regression.hpp"
#include "program/task.hpp"

namespace petaflow::cosmoflow {

/// Parameters that the network estimates, one per output.
std::vector<EstimatedParameter> estimated_parameters(const Options& options);

/// "mae", the mean absolute error of the labels (the metric of MLPerf HPC), and "error_<parameter>" of each: the mean
/// relative error of its physical value.
std::vector<std::string> metric_names(const Options& options);

/// The network's metrics, beside those of methods without a network; in full with bootstrap errors over universes.
/// Keeps the estimates and labels of each sample.
class CosmoflowEvaluator final : public Evaluator {
 public:
  /// All but the options must outlive it; the task opens the training set.
  CosmoflowEvaluator(Task& task, const CosmoData& data, const Options& options, Depth depth);

  void add(const PredictedBatch& batch) override;
  void merge(Communicator& comm) override;
  void add_baselines(Communicator& comm, const std::vector<std::string>& training_files) override;
  Evaluation evaluate() override;

  // On rank 0, after evaluate().
  const CosmoData& data() const { return data_; }
  /// The network is the first method.
  const RegressionSet& set() const { return set_; }
  const RegressionReport& report() const { return report_; }

 private:
  Task& task_;
  const CosmoData& data_;
  Options options_;
  Depth depth_;
  SampleRows estimates_, labels_;  // (N, parameters), normalised
  RegressionSet set_;
  RegressionReport report_;
};

/// A number per parameter: estimate and true in physical units (true NaN where it is not known), estimate_normalised as
/// the network gives it.  Attributes parameters and units, a line per parameter.
PredictionRows prediction_rows(const Options& options, const PredictedBatch& batch);

}  // namespace petaflow::cosmoflow
