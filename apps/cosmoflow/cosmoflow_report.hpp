// The CosmoFlow application's part of a report: estimates against the truth, their errors, a slice of a cube.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/cosmo.hpp"
#include "metrics/regression.hpp"
#include "report/page.hpp"
#include "report/run_record.hpp"
#include "train/predictor.hpp"

namespace petaflow::cosmoflow {

/// For evaluation.json: physical true values and estimates of at most 1200 samples, and a slice of the first one.
nlohmann::json report_curves(const std::vector<EstimatedParameter>& parameters, const CosmoData& data,
                             const Predictions& predictions);

std::vector<KeyNumber> report_key_numbers(const RunRecord& run);
void add_report_sections(Page& page, const std::vector<RunRecord>& runs);

}  // namespace petaflow::cosmoflow
