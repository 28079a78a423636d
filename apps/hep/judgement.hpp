// How the predictions of the HEP application are judged.
#pragma once

#include <vector>

#include "data/hep.hpp"
#include "hep/options.hpp"
#include "metrics/classification.hpp"
#include "program/application.hpp"

namespace petaflow::hep {

/// Scores are log-odds of signal, which a float softmax would round to 1.  Weights are those of physics where
/// `weighted` asks for them and the files have some.
ScoredSet scored(const HepData& data, const Predictions& predictions, bool weighted);

/// Metrics auc and accuracy; in full also efficiencies at fixed background rates and the comparison with the files' cut
/// selection, with bootstrap errors.
Evaluation judge(const HepData& data, const ScoredSet& set, const EvaluateKeys& keys, Depth depth);

/// score: the probability of signal; label: -1 where it is not known.
std::vector<PredictionColumn> prediction_columns(const HepData& data, const Predictions& predictions);

}  // namespace petaflow::hep
