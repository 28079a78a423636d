#include "hep/judgement.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace petaflow::hep {
namespace {

std::string text(const Metric& metric, int digits = 4) { return to_string(metric, digits); }

/// The reason is long, and stands in the report.
std::string short_text(const Metric& efficiency) {
  return efficiency.value ? text(efficiency) : "too few events to say";
}

std::string percent(double rate) { return fmt::format("{:.3g} %", 100 * rate); }

/// The report as lines for people.
std::string evaluation_table(const ClassificationReport& report) {
  std::string table =
      fmt::format("  {} signal and {} background events\n  accuracy {}\n  AUC      {}", report.signal_events,
                  report.background_events, text(report.accuracy), text(report.auc));
  for (const EfficiencyAtRate& at : report.at_rates) {
    table += fmt::format("\n  signal efficiency at a background rate of {}: {}", percent(at.background_rate),
                         short_text(at.signal_efficiency));
  }
  if (report.selection) {
    const SelectionComparison& cuts = *report.selection;
    table += fmt::format("\n  cut selection: background rate {},\n    signal efficiency {}",
                         text(cuts.background_rate, 5), short_text(cuts.signal_efficiency));
    table += fmt::format("\n  network at the same background rate:\n    signal efficiency {}",
                         short_text(cuts.score_efficiency));
    if (cuts.difference.value) table += fmt::format(" (difference {})", text(cuts.difference));
  }
  return table;
}

}  // namespace

ScoredSet scored(const HepData& data, const Predictions& predictions, bool weighted) {
  ScoredSet set;
  for (std::size_t i = 0; i < data.events().size(); ++i) {
    const HepEvent& event = data.events()[i];
    set.score.push_back(predictions.outputs[2 * i + 1] - predictions.outputs[2 * i]);
    set.label.push_back(event.label);
    if (weighted && data.has_weights()) set.weight.push_back(event.weight);
  }
  return set;
}

Evaluation judge(const HepData& data, const ScoredSet& set, const EvaluateKeys& keys, Depth depth) {
  const bool full = depth == Depth::kFull;
  std::vector<std::uint8_t> selected;
  for (const HepEvent& event : data.events()) {
    if (full && data.has_selection()) selected.push_back(event.pass_sr ? 1 : 0);
  }
  ClassificationOptions options;
  options.threshold = 0;  // of log-odds
  options.replicas = full ? static_cast<int>(keys.replicas) : 0;
  options.min_background = keys.min_background;
  if (!full) options.background_rates.clear();
  const ClassificationReport report = classify(set, options, selected);

  Evaluation evaluation;
  evaluation.add("auc", report.auc, true);
  evaluation.add("accuracy", report.accuracy, true);
  evaluation.table = evaluation_table(report);
  evaluation.json = nlohmann::json(report).dump();
  return evaluation;
}

std::vector<PredictionColumn> prediction_columns(const HepData& data, const Predictions& predictions) {
  std::vector<float> score;
  std::vector<std::int32_t> label;
  for (std::size_t i = 0; i < data.events().size(); ++i) {
    score.push_back(predictions.scores[2 * i + 1]);
    label.push_back(data.events()[i].label);
  }
  return {{"score", score}, {"label", label}};
}

}  // namespace petaflow::hep
