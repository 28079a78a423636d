// The look of an application's results.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "metrics/evaluator.hpp"
#include "report/page.hpp"

namespace petaflow {

struct RunRecord;

class Reporter {
 public:
  virtual ~Reporter() = default;

  // All take an evaluator that the application's task made, on rank 0 after Evaluator::evaluate().
  /// For people, several lines: all that evaluate says.
  virtual std::string table(const Evaluator& evaluator) const = 0;
  /// At the end of a training: at most 15 lines of 80 characters.
  virtual std::string short_table(const Evaluator& evaluator) const { return table(evaluator); }
  /// All results: an object, kept in the run folder and printed by evaluate --json.
  virtual nlohmann::json results(const Evaluator& evaluator) const = 0;
  /// Details that the report of a run shows besides (curves, histograms, pictures): a compact object, kept in the run
  /// folder.
  virtual nlohmann::json curves(const Evaluator& evaluator) const;

  /// The most important results of a run, for the head of its report.
  virtual std::vector<KeyNumber> key_numbers(const RunRecord& run) const;
  /// The application's sections of a report, from what results() and curves() left in the folders of the runs.  A run
  /// without an evaluation is left out; runs[i] has the colour "s<i + 1>".
  virtual void add_sections(Page& page, const std::vector<RunRecord>& runs) const;
};

}  // namespace petaflow
