// What reports of all applications say of the evaluations of runs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "report/run_record.hpp"

namespace petaflow {

/// "judgement" or "curves" (Reporter) of a run's evaluation; null: it has none.
const nlohmann::json* evaluation_part(const RunRecord& run, const char* part);

/// "test set" or "validation set": what the run was judged on.
std::string judged_set(const RunRecord& run);

/// A run with a judgement.
struct JudgedRun {
  std::size_t position;  // on the page: that of its colour
  const RunRecord* run;
  const nlohmann::json& judgement() const { return *evaluation_part(*run, "judgement"); }
  const nlohmann::json* curves() const { return evaluation_part(*run, "curves"); }
};

/// Those of a page's runs.
std::vector<JudgedRun> judged_runs(const std::vector<RunRecord>& runs);

/// Paragraphs: how many `samples` ("events") of which files the runs were judged on, followed by what `detail` (HTML)
/// says of them, and whether the training saw some of the files.
std::string judged_sets(const std::vector<JudgedRun>& runs, const std::string& samples,
                        const std::function<std::string(const nlohmann::json& judgement)>& detail);

}  // namespace petaflow
