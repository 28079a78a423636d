// How the predictions of the HEP application are evaluated.
#pragma once

#include <vector>

#include "data/hep.hpp"
#include "hep/options.hpp"
#include "metrics/classification.hpp"
#include "metrics/evaluator.hpp"
#include "program/task.hpp"

namespace petaflow::hep {

/// Metrics auc and accuracy; in full also efficiencies at fixed background rates and the comparison with the files' cut
/// selection, with bootstrap errors.  Keeps a score per event.
class HepEvaluator final : public Evaluator {
 public:
  /// The data must outlive it.
  HepEvaluator(const HepData& data, const Options& options, Depth depth)
      : data_(data), options_(options), depth_(depth) {}

  void add(const PredictedBatch& batch) override;
  void merge(Communicator& comm) override;
  Evaluation evaluate() override;

  // On rank 0, after evaluate().
  const HepData& data() const { return data_; }
  const Options& options() const { return options_; }
  /// Scores are log-odds of signal, which a float softmax would round to 1.  Weights are those of physics where
  /// evaluate.weighted asks for them and the files have some.
  const ScoredSet& scores() const { return set_; }
  const ClassificationReport& report() const { return report_; }

 private:
  const HepData& data_;
  Options options_;
  Depth depth_;
  SampleRows rows_{1};
  ScoredSet set_;
  ClassificationReport report_;
};

/// score: the probability of signal; label: -1 where it is not known.
std::vector<PredictionColumn> prediction_columns(const HepData& data, const PredictedBatch& batch);

}  // namespace petaflow::hep
