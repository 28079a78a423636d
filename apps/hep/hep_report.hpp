// The HEP application's part of a report: ROC against the cut selection, distributions of the score, a few events.
#pragma once

#include <string>
#include <vector>

#include "data/hep.hpp"
#include "metrics/classification.hpp"
#include "report/page.hpp"
#include "report/run_record.hpp"

namespace petaflow::hep {

/// Images of the first channel in the quantity of the file, from what the network sees.
struct ImageScale {
  std::string transform = "none";
  double unit = 1;     // of the transform
  double maximum = 1;  // that the images were divided by
};

/// For evaluation.json: points of the ROC curve, histograms of the score (log-odds) per class, pictures of a few
/// events. Without events of both classes there are no curves.
nlohmann::json report_curves(const HepData& data, const ScoredSet& set, const ImageScale& scale);

std::vector<KeyNumber> report_key_numbers(const RunRecord& run);
void add_report_sections(Page& page, const std::vector<RunRecord>& runs);

}  // namespace petaflow::hep
