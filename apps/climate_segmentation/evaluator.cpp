#include "climate_segmentation/evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "climate/map_picture.hpp"
#include "climate_segmentation/baselines.hpp"
#include "io/log.hpp"
#include "program/open_data.hpp"

namespace petaflow::climate_segmentation {

std::vector<std::string> metric_names() {
  std::vector<std::string> names = {"iou_mean"};
  for (const std::string_view tag : climate::kTagNames) names.push_back(fmt::format("iou_{}", tag));
  names.insert(names.end(), {"iou_mlperf", "accuracy"});
  return names;
}

ClassOffsets class_offsets(const Options& options) {
  ClassOffsets offsets = {};
  std::ranges::copy(options.evaluate.class_offsets, offsets.begin());
  return offsets;
}

SegmentationEvaluator::SegmentationEvaluator(Task& task, const climate::ClimateData& data, const Options& options,
                                             Depth depth, MissedClasses& missed)
    : task_(task), data_(data), options_(options), depth_(depth), missed_(missed), offsets_(class_offsets(options)) {
  methods_.emplace_back().name = "network";
  if (offsets_ == ClassOffsets{}) return;
  methods_.front().how = fmt::format("class offsets {}", offsets_text(offsets_));
  methods_.emplace_back().name = "network, largest logit";
  methods_.back().how = "without class offsets";
}

void SegmentationEvaluator::add(const PredictedBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::int64_t index = batch.indices[i];
    const auto logits = batch.outputs.front().value(i);
    const auto known = batch.targets.front().of<std::uint8_t>(i);
    const std::vector<std::uint8_t> predicted = decide(logits, offsets_);
    methods_.front().counts.add(index, known, predicted);
    if (methods_.size() > 1) methods_[1].counts.add(index, known, decide(logits));
    if (depth_ == Depth::kFull && climate::is_pictured(index, options_.evaluate.pictures, data_.size())) {
      pictures_.push_back({index, {known.begin(), known.end()}, predicted});
    }
  }
}

void SegmentationEvaluator::merge(Communicator& comm) {
  for (Method& method : methods_) method.frames = method.counts.merge(comm);
  std::vector<std::byte> mine;
  const auto append = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    mine.insert(mine.end(), bytes.begin(), bytes.end());
  };
  for (const PicturedFrame& picture : pictures_) {
    append(std::array{picture.index});
    append(picture.known);
    append(picture.predicted);
  }
  const auto pixels = static_cast<std::size_t>(data_.grid().height() * data_.grid().width());
  std::vector<PicturedFrame> all;
  for (const std::vector<std::byte>& part : comm.gather(mine)) {
    for (std::size_t at = 0; at < part.size();) {
      PicturedFrame& picture = all.emplace_back();
      const auto take = [&](void* to, std::size_t size) {
        std::memcpy(to, part.data() + at, size);
        at += size;
      };
      take(&picture.index, sizeof picture.index);
      for (auto* map : {&picture.known, &picture.predicted}) {
        map->resize(pixels);
        take(map->data(), pixels);
      }
    }
  }
  std::ranges::sort(all, {}, &PicturedFrame::index);
  pictures_ = std::move(all);
}

void SegmentationEvaluator::add_baselines(Communicator& comm, const std::vector<std::string>& training_files) {
  const EvaluateOptions& own = options_.evaluate;
  if (own.baseline_trials == 0) return;
  const auto train = open_data(comm, task_, training_files, "data.train", DataRole::kTrain);
  for (Method& method : classical_methods(comm, dynamic_cast<const climate::ClimateData&>(*train), data_,
                                          own.baseline_frames, own.baseline_trials)) {
    method.frames = method.counts.merge(comm);
    methods_.push_back(std::move(method));
  }
}

// A loss may fall for long while a rare class is given up: its pixels weigh little, and the background's are won.
void SegmentationEvaluator::warn_of_missed() {
  constexpr int kValidations = 2;
  const PixelCounts& sum = methods_.front().report.sum;
  for (std::int64_t c = 0; c < kClasses; ++c) {
    int& missed = missed_[static_cast<std::size_t>(c)];
    if (sum.known(c) == 0) continue;
    missed = sum.at(c, c) == 0 ? missed + 1 : 0;
    if (missed != kValidations) continue;
    log_warning(
        "the network has found no pixel of the class {} in {} validations, so its intersection over union stays at 0 "
        "whatever the loss does: try loss.weights = \"sqrt\", another train.seed, a larger optimizer.lr, or a larger "
        "data.clip where the class lives in the tails of a variable",
        climate::kTagNames[static_cast<std::size_t>(c)], kValidations);
  }
}

Evaluation SegmentationEvaluator::evaluate() {
  const bool full = depth_ == Depth::kFull;
  for (Method& method : methods_) {
    method.report =
        evaluate_segmentation(method.frames, kClasses, {full ? static_cast<int>(options_.evaluate.replicas) : 0, 0});
  }
  const SegmentationReport& network = methods_.front().report;
  if (!full) warn_of_missed();

  const std::vector<std::string> names = metric_names();
  Evaluation evaluation;
  evaluation.main = {names[0], names[2], names[3]};  // the background is found by any network
  evaluation.add(names[0], network.iou_mean, true);
  for (std::size_t c = 0; c < network.iou.size(); ++c) {
    Metric iou = network.iou[c];
    // To stop by it, a class that the set lacks and the network does not see is not found.
    if (!full && !iou.value && network.frames > 0) iou.value = 0;
    evaluation.add(names[c + 1], iou, true);
  }
  evaluation.add(names[kClasses + 1], network.iou_mlperf, true);
  evaluation.add(names[kClasses + 2], network.accuracy, true);
  return evaluation;
}

void OffsetChooser::add(const PredictedBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    search_.add(batch.outputs.front().value(i), batch.targets.front().of<std::uint8_t>(i));
  }
}

Evaluation OffsetChooser::evaluate() {
  offsets_ = search_.best();
  return {};
}

}  // namespace petaflow::climate_segmentation
