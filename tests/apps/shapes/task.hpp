// The task of the shapes application: which shape is in an image, and where.
#pragma once

#include "comm/agree.hpp"
#include "data/augment.hpp"
#include "data/bytes.hpp"
#include "io/log.hpp"
#include "nn/objective.hpp"
#include "program/generated_files.hpp"
#include "shapes/evaluator.hpp"
#include "shapes/model.hpp"

namespace petaflow::shapes {

struct Options {
  std::int64_t edge = 24;                                  // of the images
  std::int64_t filters = 8;                                // of the first convolution
  double kind_weight = 0.5;                                // of the kind's loss beside the map's
  std::vector<double> map_weights = {0.5, 1, 1, 1};        // of the classes of pixels: most are background
  bool flips = true;                                       // up and down, left and right
  std::int64_t train = 512, validation = 128, test = 128;  // generated samples
  std::int64_t seed = 1;
};

class ShapesTask final : public Task {
 public:
  std::string name() const override { return "shapes"; }
  std::string description() const override { return "Finds a shape in noise: its kind and its pixels"; }
  void declare(Schema& schema) override {
    schema.add("data.edge", options_.edge, in_range(8, 1024));
    schema.add("model.filters", options_.filters, in_range(1, 1024));
    schema.add("loss.kind_weight", options_.kind_weight, at_least(0));
    schema.add("loss.map_weights", options_.map_weights, at_least(0));
    schema.add("augment.flips", options_.flips);
    schema.add("generate.train", options_.train, at_least(0));
    schema.add("generate.validation", options_.validation, at_least(0));
    schema.add("generate.test", options_.test, at_least(0));
    schema.add("generate.seed", options_.seed, at_least(0));
  }

  Shape sample_shape() const override { return {1, 1, 1, options_.edge, options_.edge}; }
  Graph model(const Shape& sample) const override { return shapes::model(sample, options_.filters); }
  Objective objective() const override {
    PixelSoftmaxOptions map;
    map.class_weights.assign(options_.map_weights.begin(), options_.map_weights.end());
    return Objective({{0, "map", std::make_shared<PixelSoftmaxLoss>(map)},
                      {1, "kind", std::make_shared<SoftmaxLoss>(), options_.kind_weight}});
  }

  std::string scan(const std::vector<std::string>& files, DataRole /*role*/) const override {
    ShapeSet set = read_shapes(files, options_.edge);
    return to_bytes(set);
  }
  std::unique_ptr<Dataset> open(const std::string& found, const std::string& /*what*/,
                                DataRole /*role*/) const override {
    return std::make_unique<ShapesData>(from_bytes<ShapeSet>(found));
  }
  Augmentation augmentation(const Dataset& train) const override {
    if (!options_.flips) return {};
    return [dims = train.sample_dims()](const SampleBytes& sample, RandomSequence& random) {
      for (const ImageAxis axis : {ImageAxis::kH, ImageAxis::kW}) {
        if (random.below(2) == 0) continue;
        mirror(numbers<float>(sample.input), dims, axis);
        mirror(sample.target<std::uint8_t>(1), dims, axis);  // an image has one channel, as its map
      }
    };
  }

  std::vector<std::string> metrics() const override { return {"iou", "accuracy"}; }
  std::unique_ptr<Evaluator> evaluator(const Dataset& /*data*/, Depth /*depth*/) override {
    return std::make_unique<ShapesEvaluator>();
  }
  PredictionRows rows(const Dataset& /*data*/, const PredictedBatch& batch) const override {
    return prediction_rows(batch);
  }

  void generate(const DataOptions& data, Communicator& comm, bool overwrite) const override {
    agree(comm, [&] {
      if (comm.rank() != 0) return;
      const auto counts = std::array{options_.train, options_.validation, options_.test};
      for (const GeneratedFile& file : plan_generated_files(data, counts, overwrite)) {
        write_shapes(file.path, options_.edge, static_cast<std::uint64_t>(options_.seed), file.first, file.count);
        log_info("{}: {} images", file.path, file.count);
      }
    });
  }

 private:
  Options options_;
};

}  // namespace petaflow::shapes
