#include "hep/evaluator.hpp"

#include <array>
#include <cstdint>

namespace petaflow::hep {

void HepEvaluator::add(const PredictedBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const float> logits = batch.outputs.front().value(i);
    const std::array<float, 1> log_odds = {logits[1] - logits[0]};
    rows_.add(batch.indices[i], log_odds);
  }
}

void HepEvaluator::merge(Communicator& comm) { set_.score = rows_.merge(comm); }

Evaluation HepEvaluator::evaluate() {
  const bool full = depth_ == Depth::kFull;
  const EvaluateOptions& own = options_.evaluate;
  std::vector<std::uint8_t> selected;
  for (const HepEvent& event : data_.events()) {
    set_.label.push_back(event.label);
    if (own.weighted && data_.has_weights()) set_.weight.push_back(event.weight);
    if (full && data_.has_selection()) selected.push_back(event.pass_sr ? 1 : 0);
  }
  ClassificationOptions how;
  how.threshold = 0;  // of log-odds
  how.replicas = full ? static_cast<int>(own.replicas) : 0;
  how.min_background = own.min_background;
  if (!full) how.background_rates.clear();
  report_ = classify(set_, how, selected);

  Evaluation evaluation;
  evaluation.add("auc", report_.auc, true);
  evaluation.add("accuracy", report_.accuracy, true);
  return evaluation;
}

std::vector<PredictionColumn> prediction_columns(const HepData& data, const PredictedBatch& batch) {
  std::vector<float> score;
  std::vector<std::int32_t> label;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    score.push_back(batch.outputs.front().score(i)[1]);
    label.push_back(data.events()[static_cast<std::size_t>(batch.indices[i])].label);
  }
  return {{"score", score}, {"label", label}};
}

}  // namespace petaflow::hep
