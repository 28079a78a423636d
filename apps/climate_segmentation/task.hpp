// The task of the climate segmentation: which pixels of a frame of the atmosphere are a tropical cyclone, which a
// river.
#pragma once

#include <fmt/ranges.h>

#include "climate_segmentation/class_weights.hpp"
#include "climate_segmentation/evaluator.hpp"
#include "climate_segmentation/options.hpp"
#include "climate_segmentation/predicted_maps.hpp"
#include "data/bytes.hpp"
#include "nn/objective.hpp"

namespace petaflow::climate_segmentation {

class SegmentationTask final : public Task {
 public:
  std::string name() const override { return "climate_segmentation"; }
  std::string description() const override {
    return "Finds the pixels of tropical cyclones and atmospheric rivers (Kurth et al., SC18; MLPerf HPC DeepCAM)";
  }
  void declare(Schema& schema) override { climate_segmentation::declare(schema, options_); }
  Shape sample_shape() const override {
    const climate::ClimateDataOptions& data = options_.data.frames;
    return {1, std::ssize(climate::channel_fields(data)), 1, data.height, data.width};
  }
  Graph model(const Shape& sample) const override {
    check(options_);
    return climate_segmentation::model(options_.model, sample);
  }
  Objective objective() const override {
    return {"map", std::make_shared<PixelSoftmaxLoss>(PixelSoftmaxOptions{class_weights(options_.loss)})};
  }

  std::string scan(const std::vector<std::string>& files, DataRole role) const override {
    climate::ClimateIndex index = climate::scan_climate(climate::data_options(options_.data, role), files);
    return to_bytes(index);
  }
  std::unique_ptr<Dataset> open(const std::string& found, const std::string& /*what*/, DataRole role) const override {
    return std::make_unique<climate::ClimateData>(climate::data_options(options_.data, role),
                                                  from_bytes<climate::ClimateIndex>(found));
  }
  void keep(const Dataset& train) override {
    climate::keep_scaling(options_.data, frames(train));
    LossOptions& loss = options_.loss;
    const bool by_frequency = loss.weights == "sqrt" || loss.weights == "eighth";
    if (by_frequency && loss.frequencies.empty()) loss.frequencies = class_frequencies(train);
  }
  Augmentation augmentation(const Dataset& train) const override {
    return climate::augmentation(options_.augment, frames(train));
  }

  MlperfBenchmark mlperf_benchmark() const override { return {"deepcam", "iou_mlperf", "eval_accuracy"}; }
  std::vector<std::string> metrics() const override { return metric_names(); }
  std::unique_ptr<Evaluator> evaluator(const Dataset& data, Depth depth) override {
    return std::make_unique<SegmentationEvaluator>(*this, frames(data), options_, depth, missed_);
  }
  std::unique_ptr<Evaluator> calibrator(const Dataset& /*validation*/) override {
    if (!options_.evaluate.class_offsets.empty()) return nullptr;
    return std::make_unique<OffsetChooser>();
  }
  std::vector<std::string> calibration(const Evaluator& calibrator) const override {
    const ClassOffsets& found = dynamic_cast<const OffsetChooser&>(calibrator).offsets();
    return {fmt::format("evaluate.class_offsets=[{}]", fmt::join(found, ", "))};
  }
  PredictionFormat prediction_format() const override { return {"netCDF", {".nc", ".nc4"}}; }
  std::unique_ptr<PredictionWriter> prediction_writer(const std::string& path, const Dataset& data) const override {
    return std::make_unique<MapWriter>(path, frames(data), class_offsets(options_));
  }
  std::vector<TaskCommand> commands() override { return climate::frame_commands(options_.data, options_.label); }

  void generate(const DataOptions& /*data*/, Communicator& comm, bool overwrite) const override {
    const climate::ClimateDataOptions& data = options_.data.frames;
    climate::generate_frames(options_.generate, data.height, data.width, comm, overwrite, climate::write_frame);
  }

 private:
  static const climate::ClimateData& frames(const Dataset& data) {
    return dynamic_cast<const climate::ClimateData&>(data);
  }

  Options options_;
  MissedClasses missed_;
};

}  // namespace petaflow::climate_segmentation
