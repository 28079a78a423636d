// The CosmoFlow application's results: a table, and its part of a report: estimates against the truth, their errors, a
// slice of a cube.
#pragma once

#include <string>
#include <vector>

#include "report/reporter.hpp"

namespace petaflow::cosmoflow {

class CosmoflowReporter final : public Reporter {
 public:
  std::string table(const Evaluator& evaluator) const override;
  std::string short_table(const Evaluator& evaluator) const override;
  nlohmann::json results(const Evaluator& evaluator) const override;
  /// Physical true values and estimates of at most 1200 samples, and a slice of the first one.
  nlohmann::json curves(const Evaluator& evaluator) const override;
  std::vector<KeyNumber> key_numbers(const RunRecord& run) const override;
  void add_sections(Page& page, const std::vector<RunRecord>& runs) const override;
};

}  // namespace petaflow::cosmoflow
