// How the predictions of the shapes application are evaluated.
#pragma once

#include <array>
#include <vector>

#include "metrics/evaluator.hpp"
#include "program/task.hpp"
#include "shapes/data.hpp"

namespace petaflow::shapes {

/// Metrics iou, the mean over the classes of pixels of intersection over union (Everingham et al., IJCV 111, 2015), and
/// accuracy, the share of images of which the kind is right.  Keeps counts alone.
class ShapesEvaluator final : public Evaluator {
 public:
  void add(const PredictedBatch& batch) override;
  void merge(Communicator& comm) override;
  Evaluation evaluate() override;

  // On rank 0, after evaluate().
  /// Intersection over union of each class of pixels; none where no pixel has or is given it.
  const std::array<Metric, kMapClasses>& iou_of_class() const { return iou_of_class_; }
  const Metric& iou() const { return iou_; }
  const Metric& accuracy() const { return accuracy_; }

 private:
  struct Counts {
    double both = 0, known = 0, predicted = 0;  // pixels
  };
  std::array<Counts, kMapClasses> pixels_;
  double images_ = 0, right_ = 0;
  std::array<Metric, kMapClasses> iou_of_class_;
  Metric iou_, accuracy_;
};

/// kind; kind_probability, a number per kind; map, (samples, edge x edge) classes.  Attribute kinds, a line per kind.
PredictionRows prediction_rows(const PredictedBatch& batch);

}  // namespace petaflow::shapes
