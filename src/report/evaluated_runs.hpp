// The part on evaluations of runs that reports of all applications share.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "report/run_record.hpp"

namespace petaflow {

/// "results" or "curves" (Reporter) of a run's evaluation; null: it has none.
const nlohmann::json* evaluation_part(const RunRecord& run, const char* part);

/// "test set" or "validation set": what the run was evaluated on.
std::string evaluated_set(const RunRecord& run);

/// A run with an evaluation.
struct EvaluatedRun {
  std::size_t position;  // on the page: that of its colour
  const RunRecord* run;
  const nlohmann::json& results() const { return *evaluation_part(*run, "results"); }
  const nlohmann::json* curves() const { return evaluation_part(*run, "curves"); }
};

/// Runs of a page that have an evaluation.
std::vector<EvaluatedRun> evaluated_runs(const std::vector<RunRecord>& runs);

/// Paragraphs: how many `samples` ("events") of which files the runs were evaluated on, followed by what `detail`
/// (HTML) says of them, and whether the training saw some of the files.
std::string evaluated_sets(const std::vector<EvaluatedRun>& runs, const std::string& samples,
                           const std::function<std::string(const nlohmann::json& results)>& detail);

}  // namespace petaflow
