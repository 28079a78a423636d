// The climate detection's results: a table, and its part of a report: average precision of each kind, maps with boxes.
#pragma once

#include <string>
#include <vector>

#include "report/reporter.hpp"

namespace petaflow::climate_detection {

class DetectionReporter final : public Reporter {
 public:
  std::string table(const Evaluator& evaluator) const override;
  /// {"frames": 100, "ap_10": 0.7, "ap_10_tropical_cyclone": ..., "ap_50": ..., each with "<name>_error"; "known":
  /// {"tropical_cyclone": 350, ...}, "found": {...}}
  nlohmann::json results(const Evaluator& evaluator) const override;
  /// Maps of a few frames with their boxes.
  nlohmann::json curves(const Evaluator& evaluator) const override;
  std::vector<KeyNumber> key_numbers(const RunRecord& run) const override;
  void add_sections(Page& page, const std::vector<RunRecord>& runs) const override;
};

}  // namespace petaflow::climate_detection
