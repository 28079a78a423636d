// The shapes application's results: a table, and its section of a report.
#pragma once

#include <string>
#include <vector>

#include "report/reporter.hpp"

namespace petaflow::shapes {

class ShapesReporter final : public Reporter {
 public:
  std::string table(const Evaluator& evaluator) const override;
  /// {"iou": 0.9, "accuracy": 0.95, "iou_background": 0.99, "iou_disc": ...}
  nlohmann::json results(const Evaluator& evaluator) const override;
  std::vector<KeyNumber> key_numbers(const RunRecord& run) const override;
  void add_sections(Page& page, const std::vector<RunRecord>& runs) const override;
};

}  // namespace petaflow::shapes
