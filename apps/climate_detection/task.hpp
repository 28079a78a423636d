// The task of the climate detection: where in a frame of the atmosphere storms and rivers are, and of which kind.
#pragma once

#include "climate/extreme_weather_file.hpp"
#include "climate/frame_commands.hpp"
#include "climate_detection/box_file.hpp"
#include "climate_detection/evaluator.hpp"
#include "climate_detection/options.hpp"
#include "data/bytes.hpp"
#include "nn/objective.hpp"

namespace petaflow::climate_detection {

class DetectionTask final : public Task {
 public:
  std::string name() const override { return "climate_detection"; }
  std::string description() const override {
    return "Finds boxes around storms and atmospheric rivers, from few marked frames (Kurth et al., SC17)";
  }
  void declare(Schema& schema) override { climate_detection::declare(schema, options_); }
  Shape sample_shape() const override {
    const climate::ClimateDataOptions& data = options_.data.frames;
    return {1, std::ssize(climate::channel_fields(data)), 1, data.height, data.width};
  }
  Graph model(const Shape& sample) const override {
    return climate_detection::model(options_.model, has_decoder(), sample);
  }
  Objective objective() const override {
    const LossOptions& loss = options_.loss;
    DetectionWeights weights;
    weights.position = static_cast<float>(loss.position), weights.size = static_cast<float>(loss.size);
    weights.none = static_cast<float>(loss.no_box);
    const auto cell = static_cast<float>(cell_pixels(options_.model));
    std::vector<LossTerm> terms = {
        {0, "boxes",
         std::make_shared<DetectionLoss>(DetectionOptions{cell, options_.data.frames.most_boxes, weights})}};
    if (has_decoder()) terms.push_back({1, "", std::make_shared<SquareLoss>(), loss.reconstruction});
    return Objective(std::move(terms));
  }

  std::string scan(const std::vector<std::string>& files, DataRole role) const override {
    const climate::ClimateDataOptions data = data_options(role);
    climate::ClimateIndex index = climate::scan_climate(data, files);
    if (role == DataRole::kTrain) climate::check_any_box(data, index, "data.train");
    return to_bytes(index);
  }
  std::unique_ptr<Dataset> open(const std::string& found, const std::string& /*what*/, DataRole role) const override {
    return std::make_unique<climate::ClimateData>(data_options(role), from_bytes<climate::ClimateIndex>(found));
  }
  void keep(const Dataset& train) override { climate::keep_scaling(options_.data, frames(train)); }
  Augmentation augmentation(const Dataset& train) const override {
    return climate::augmentation(options_.augment, frames(train));
  }

  std::vector<std::string> metrics() const override { return metric_names(); }
  std::unique_ptr<Evaluator> evaluator(const Dataset& data, Depth depth) override {
    return std::make_unique<DetectionEvaluator>(frames(data), options_, depth);
  }
  PredictionFormat prediction_format() const override { return {"GeoJSON", {".geojson", ".json"}}; }
  std::unique_ptr<PredictionWriter> prediction_writer(const std::string& path, const Dataset& data) const override {
    return std::make_unique<BoxWriter>(path, frames(data), options_);
  }
  std::vector<TaskCommand> commands() override { return {climate::stats_command(options_.data)}; }

  void generate(const DataOptions& /*data*/, Communicator& comm, bool overwrite) const override {
    const climate::ClimateDataOptions& data = options_.data.frames;
    climate::generate_frames(options_.generate, data.height, data.width, comm, overwrite,
                             [](const std::string& path, const climate::Frame& frame) {
                               constexpr std::int64_t kRows = 64;  // two for a box that goes on at column 0
                               climate::write_extreme_weather(path, {&frame, 1}, kRows);
                             });
  }

 private:
  bool has_decoder() const { return options_.loss.reconstruction > 0; }
  climate::ClimateDataOptions data_options(DataRole role) const {
    climate::ClimateDataOptions data = climate::data_options(options_.data, role);
    data.map = false;
    data.boxes = true;
    data.boxes_optional = role == DataRole::kTrain;
    if (role != DataRole::kTrain) data.labelled_fraction = 1;
    return data;
  }
  static const climate::ClimateData& frames(const Dataset& data) {
    return dynamic_cast<const climate::ClimateData&>(data);
  }

  Options options_;
};

}  // namespace petaflow::climate_detection
