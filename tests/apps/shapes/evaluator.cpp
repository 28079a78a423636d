#include "shapes/evaluator.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

namespace petaflow::shapes {
namespace {

constexpr std::size_t kMapOutput = 0, kKindOutput = 1;  // of the network
constexpr std::size_t kKindTarget = 0, kMapTarget = 1;  // of the data

std::int32_t largest(std::span<const float> scores) {
  return static_cast<std::int32_t>(std::ranges::max_element(scores) - scores.begin());
}

/// The most probable class of every pixel, of (pixels, kMapClasses).
std::vector<std::int32_t> classes(std::span<const float> scores) {
  std::vector<std::int32_t> map(scores.size() / kMapClasses);
  for (std::size_t p = 0; p < map.size(); ++p) map[p] = largest(scores.subspan(p * kMapClasses, kMapClasses));
  return map;
}

Metric share(double part, double whole, const std::string& reason) {
  return bootstrap_metric(whole > 0 ? part / whole : NAN, {}, reason);
}

}  // namespace

void ShapesEvaluator::add(const PredictedBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::vector<std::int32_t> predicted = classes(batch.outputs[kMapOutput].score(i));
    const auto known = batch.targets[kMapTarget].of<std::uint8_t>(i);
    for (std::size_t p = 0; p < known.size(); ++p) {
      const auto a = static_cast<std::size_t>(predicted[p]), b = std::size_t{known[p]};
      pixels_[a].predicted += 1;
      pixels_[b].known += 1;
      if (a == b) pixels_[a].both += 1;
    }
    images_ += 1;
    right_ += largest(batch.outputs[kKindOutput].score(i)) == batch.targets[kKindTarget].of<std::int32_t>(i).front();
  }
}

void ShapesEvaluator::merge(Communicator& comm) {
  std::vector<double*> counts = {&images_, &right_};
  for (Counts& of : pixels_) counts.insert(counts.end(), {&of.both, &of.known, &of.predicted});
  std::vector<double> sums;
  for (const double* count : counts) sums.push_back(*count);
  comm.all_reduce_sum(std::span<double>(sums));
  for (std::size_t i = 0; i < counts.size(); ++i) *counts[i] = sums[i];
}

Evaluation ShapesEvaluator::evaluate() {
  double sum = 0, classes = 0;
  for (std::size_t c = 0; c < pixels_.size(); ++c) {
    const auto [both, known, predicted] = pixels_[c];
    iou_of_class_[c] = share(both, known + predicted - both, "no pixels of it");
    sum += iou_of_class_[c].value.value_or(0);
    classes += iou_of_class_[c].value ? 1 : 0;
  }
  iou_ = share(sum, classes, "no pixels");
  accuracy_ = share(right_, images_, "no images");
  Evaluation evaluation;
  evaluation.add("iou", iou_, true);
  evaluation.add("accuracy", accuracy_, true);
  return evaluation;
}

PredictionRows prediction_rows(const PredictedBatch& batch) {
  const PredictedOutput& maps = batch.outputs[kMapOutput];
  std::vector<std::int32_t> kinds;
  for (std::size_t i = 0; i < batch.size(); ++i) kinds.push_back(largest(batch.outputs[kKindOutput].score(i)));
  return {{{"kind", kinds},
           {"kind_probability", batch.outputs[kKindOutput].scores, std::ssize(kKinds)},
           {"map", classes(maps.scores), maps.shape.pixels()}},
          {{"kinds", fmt::format("{}", fmt::join(kKinds, "\n"))}}};
}

}  // namespace petaflow::shapes
