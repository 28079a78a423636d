// How found boxes are evaluated.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "climate/climate_data.hpp"
#include "climate_detection/cells.hpp"
#include "climate_detection/options.hpp"
#include "metrics/detection.hpp"
#include "program/task.hpp"

namespace petaflow::climate_detection {

/// Names of mean average precisions at the thresholds of DetectionRules.
inline constexpr std::array<const char*, 2> kAveragePrecisions = {"ap_10", "ap_50"};

/// "ap_10", "ap_50", then "ap_10_<kind>" and "ap_50_<kind>" of climate::kBoxKinds.
std::vector<std::string> metric_names();

/// How boxes of frames of this size are read from the network.
CellMap cell_map(const Options& options, const climate::ClimateData& data);

/// The boxes of a frame, on rank 0.
struct PicturedFrame {
  std::int64_t index = 0;
  std::vector<FoundBox> known, found;
};

/// Average precision at intersections over union of 0.1 and 0.5; in full with bootstrap errors over frames.  Keeps a
/// few numbers per found box, and the boxes of a few frames.
class DetectionEvaluator final : public Evaluator {
 public:
  /// The data must outlive it.
  DetectionEvaluator(const climate::ClimateData& data, const Options& options, Depth depth);

  void add(const PredictedBatch& batch) override;
  void merge(Communicator& comm) override;
  Evaluation evaluate() override;

  // On rank 0, after evaluate().
  const climate::ClimateData& data() const { return data_; }
  const EvaluateOptions& options() const { return options_; }
  const DetectionReport& report() const { return report_; }
  const std::vector<PicturedFrame>& pictures() const { return pictures_; }

 private:
  const climate::ClimateData& data_;
  CellMap map_;
  EvaluateOptions options_;
  Depth depth_;
  DetectionRules rules_;
  BoxComparison comparison_;
  ComparedBoxes boxes_;
  DetectionReport report_;
  std::vector<PicturedFrame> pictures_;
};

}  // namespace petaflow::climate_detection
