#include "climate_detection/evaluator.hpp"

#include <algorithm>

#include "climate/map_picture.hpp"
#include "data/bytes.hpp"

namespace petaflow {

template <class Bytes>
void exchange(Bytes& bytes, FoundBox& box) {
  bytes(box.ymin, box.xmin, box.ymax, box.xmax, box.kind, box.confidence);
}

namespace climate_detection {

template <class Bytes>
void exchange(Bytes& bytes, PicturedFrame& picture) {
  bytes(picture.index, picture.known, picture.found);
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names(kAveragePrecisions.begin(), kAveragePrecisions.end());
  for (const char* name : kAveragePrecisions) {
    for (const std::string_view kind : climate::kBoxKinds) names.push_back(fmt::format("{}_{}", name, kind));
  }
  return names;
}

CellMap cell_map(const Options& options, const climate::ClimateData& data) {
  return {data.grid().height(), data.grid().width(), options.evaluate.least_confidence, options.evaluate.most_overlap};
}

DetectionEvaluator::DetectionEvaluator(const climate::ClimateData& data, const Options& options, Depth depth)
    : data_(data),
      map_(cell_map(options, data)),
      options_(options.evaluate),
      depth_(depth),
      rules_{.kinds = std::ssize(climate::kBoxKinds), .period = static_cast<double>(map_.width)},
      comparison_(rules_) {}

void DetectionEvaluator::add(const PredictedBatch& batch) {
  const PredictedOutput& cells = batch.outputs.front();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::int64_t index = batch.indices[i];
    std::vector<FoundBox> known = boxes_of_target(batch.targets.front().of<std::byte>(i)),
                          found = boxes_of_cells(map_, cells.shape, cells.score(i));
    comparison_.add(index, found, known);
    if (depth_ != Depth::kFull || !climate::is_pictured(index, options_.pictures, data_.size())) continue;
    std::erase_if(found,
                  [&](const FoundBox& box) { return static_cast<double>(box.confidence) < options_.shown_confidence; });
    pictures_.push_back({index, std::move(known), std::move(found)});
  }
}

void DetectionEvaluator::merge(Communicator& comm) {
  boxes_ = comparison_.merge(comm);
  std::vector<PicturedFrame> all;
  for (const std::string& part : gather_text(comm, to_bytes(pictures_))) {
    for (PicturedFrame& picture : from_bytes<std::vector<PicturedFrame>>(part)) all.push_back(std::move(picture));
  }
  std::ranges::sort(all, {}, &PicturedFrame::index);
  pictures_ = std::move(all);
}

Evaluation DetectionEvaluator::evaluate() {
  const bool full = depth_ == Depth::kFull;
  report_ = evaluate_detection(boxes_, rules_, {full ? static_cast<int>(options_.replicas) : 0, 0});
  std::vector<Metric> values;
  for (const auto& at : report_.at) values.push_back(at.mean);
  for (const auto& at : report_.at) values.insert(values.end(), at.kinds.begin(), at.kinds.end());
  const std::vector<std::string> names = metric_names();
  Evaluation evaluation;
  evaluation.main.assign(kAveragePrecisions.begin(), kAveragePrecisions.end());
  for (std::size_t i = 0; i < names.size(); ++i) {
    // To stop by it, a kind that the set lacks is not found.
    if (!full && !values[i].value && report_.frames > 0) values[i].value = 0;
    evaluation.add(names[i], values[i], true);
  }
  return evaluation;
}

}  // namespace climate_detection
}  // namespace petaflow
