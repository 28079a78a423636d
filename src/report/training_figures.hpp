// How a training went: curves of loss, metrics, learning rate and throughput, of one or several runs.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.hpp"

namespace petaflow {

/// The figures side by side, as HTML; runs[i] has the colour "s<i + 1>".
std::string training_section(const std::vector<RunRecord>& runs);

/// What update.tune_groups tried and chose, as HTML; empty where it did not.
std::string tuning_table(const RunRecord& run);

}  // namespace petaflow
