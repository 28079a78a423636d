// The HEP application's results: a table, and its part of a report: ROC against the cut selection, distributions of the
// score, a few events.
#pragma once

#include <string>
#include <vector>

#include "report/reporter.hpp"

namespace petaflow::hep {

class HepReporter final : public Reporter {
 public:
  std::string table(const Evaluator& evaluator) const override;
  nlohmann::json results(const Evaluator& evaluator) const override;
  /// Points of the ROC curve, histograms of the score (log-odds) per class, pictures of a few events.  Without events
  /// of both classes there are no curves.
  nlohmann::json curves(const Evaluator& evaluator) const override;
  std::vector<KeyNumber> key_numbers(const RunRecord& run) const override;
  void add_sections(Page& page, const std::vector<RunRecord>& runs) const override;
};

}  // namespace petaflow::hep
