// How predicted maps of weather are evaluated.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "climate_segmentation/method.hpp"
#include "climate_segmentation/options.hpp"
#include "metrics/evaluator.hpp"
#include "program/task.hpp"

namespace petaflow::climate_segmentation {

/// "iou_mean", "iou_background", "iou_tc", "iou_ar", "iou_mlperf" and "accuracy" of pixels.
std::vector<std::string> metric_names();

/// The offsets that the options hold; zeros where they hold none.
ClassOffsets class_offsets(const Options& options);

/// Validations of a training in a row in which a class was there and not a pixel of it was found.
using MissedClasses = std::array<int, kClasses>;

/// The maps of a frame, on rank 0.
struct PicturedFrame {
  std::int64_t index = 0;
  std::vector<std::uint8_t> known, predicted;
};

/// The network with its class offsets and, where these are not zero, without them; in full with bootstrap errors over
/// frames and beside heuristics whose thresholds are tuned on training frames.  Keeps a matrix per frame and method,
/// and the maps of a few frames.  Between epochs it warns of a class that is never found.
class SegmentationEvaluator final : public Evaluator {
 public:
  /// All but the options must outlive it; the task opens the training set.
  SegmentationEvaluator(Task& task, const climate::ClimateData& data, const Options& options, Depth depth,
                        MissedClasses& missed);

  void add(const PredictedBatch& batch) override;
  void merge(Communicator& comm) override;
  void add_baselines(Communicator& comm, const std::vector<std::string>& training_files) override;
  Evaluation evaluate() override;

  // On rank 0, after evaluate().
  const climate::ClimateData& data() const { return data_; }
  const ClassOffsets& offsets() const { return offsets_; }
  /// The network is the first one.
  const std::vector<Method>& methods() const { return methods_; }
  const std::vector<PicturedFrame>& pictures() const { return pictures_; }

 private:
  void warn_of_missed();

  Task& task_;
  const climate::ClimateData& data_;
  Options options_;
  Depth depth_;
  MissedClasses& missed_;
  ClassOffsets offsets_;
  std::vector<Method> methods_;
  std::vector<PicturedFrame> pictures_;
};

/// Chooses class offsets on a validation set.
class OffsetChooser final : public Evaluator {
 public:
  void add(const PredictedBatch& batch) override;
  void merge(Communicator& comm) override { search_.merge(comm); }
  Evaluation evaluate() override;

  /// On rank 0, after evaluate().
  const ClassOffsets& offsets() const { return offsets_; }

 private:
  OffsetSearch search_;
  ClassOffsets offsets_ = {};
};

}  // namespace petaflow::climate_segmentation
