// The climate segmentation's results: a table, and its part of a report: intersection over union beside methods without
// a network, confusion matrix, maps.
#pragma once

#include <string>
#include <vector>

#include "report/reporter.hpp"

namespace petaflow::climate_segmentation {

class SegmentationReporter final : public Reporter {
 public:
  std::string table(const Evaluator& evaluator) const override;
  std::string short_table(const Evaluator& evaluator) const override;
  /// {"frames": 100, "iou_mean": 0.7, "iou_background": ..., "iou_tc": ..., "iou_ar": ..., "iou_mlperf": ...,
  /// "accuracy": ..., each with "<name>_error"; "class_offsets": [0, -1, 0.5], "confusion": {"tc": {"background": 10,
  /// ...}}, "others": [{"method": "heuristics", "how": "...", "iou_mean": ...}]}
  nlohmann::json results(const Evaluator& evaluator) const override;
  /// Maps of a few frames.
  nlohmann::json curves(const Evaluator& evaluator) const override;
  std::vector<KeyNumber> key_numbers(const RunRecord& run) const override;
  void add_sections(Page& page, const std::vector<RunRecord>& runs) const override;
};

}  // namespace petaflow::climate_segmentation
