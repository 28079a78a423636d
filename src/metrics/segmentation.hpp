// How well a map of classes per pixel is predicted: confusion matrices of frames, and what follows from their sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "metrics/evaluator.hpp"
#include "metrics/metric.hpp"

namespace petaflow {

/// Pixels by their known class (row) and the predicted one (column): (classes, classes).
class PixelCounts {
 public:
  explicit PixelCounts(std::int64_t classes)
      : classes_(classes), pixels_(static_cast<std::size_t>(classes * classes)) {}

  std::int64_t classes() const { return classes_; }
  double& at(std::int64_t known, std::int64_t predicted) {
    return pixels_[static_cast<std::size_t>(known * classes_ + predicted)];
  }
  double at(std::int64_t known, std::int64_t predicted) const {
    return pixels_[static_cast<std::size_t>(known * classes_ + predicted)];
  }
  /// Adds `times` the counts of another matrix of as many classes.
  void add(const PixelCounts& other, double times = 1);

  double known(std::int64_t c) const;      // pixels of class c
  double predicted(std::int64_t c) const;  // pixels that are taken for it
  /// Intersection over union of class c (Everingham et al., IJCV 111, 2015); NaN where no pixel has or is given it.
  double iou(std::int64_t c) const;
  /// Mean of iou() over the classes that have one: the metric of Kurth et al., SC18.  NaN without pixels.
  double mean_iou() const;
  /// The same where a class without one counts as 1: a term of the metric of DeepCAM in MLPerf HPC.
  double mean_iou_mlperf() const;
  double accuracy() const;  // share of pixels that are right; NaN without pixels

 private:
  std::int64_t classes_;
  std::vector<double> pixels_;
};

/// Matrices of the frames of a data set, found on all ranks.
class FrameCounts {
 public:
  explicit FrameCounts(std::int64_t classes) : classes_(classes), rows_(classes * classes) {}

  /// Takes up frame `index`, a class per pixel.  Throws a failure where the maps are of different size or a class is
  /// none.
  void add(std::int64_t index, std::span<const std::uint8_t> known, std::span<const std::uint8_t> predicted);
  /// On all ranks: on rank 0 the matrices of frames 0 to N - 1; empty elsewhere.
  std::vector<PixelCounts> merge(Communicator& comm) const;

 private:
  std::int64_t classes_;
  SampleRows rows_;  // exact below 2^24 pixels of a class in a frame
};

struct SegmentationOptions {
  int replicas = 100;  // of the bootstrap over frames; 0: without errors
  std::uint64_t seed = 0;
};

struct SegmentationReport {
  std::int64_t frames = 0;
  std::vector<Metric> iou;  // of each class; none where no pixel has or is given it
  Metric iou_mean;          // of the summed matrix
  Metric iou_mlperf;        // mean over frames of mean_iou_mlperf()
  Metric accuracy;          // of pixels
  PixelCounts sum;          // over frames
};

/// All metrics with bootstrap errors.  Replica r draws as many frames as there are, keyed by (seed, r) alone, so that
/// sets of the same frames have the same replicas.
SegmentationReport evaluate_segmentation(std::span<const PixelCounts> frames, std::int64_t classes,
                                         const SegmentationOptions& options = {});

}  // namespace petaflow
