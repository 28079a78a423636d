// The options of the climate detection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "climate/augmentation.hpp"
#include "climate/data_options.hpp"
#include "climate/generate_frames.hpp"
#include "climate_detection/model.hpp"
#include "config/schema.hpp"
#include "program/task.hpp"

namespace petaflow::climate_detection {

struct LossOptions {
  double reconstruction = 10;  // weight of the mean squared error of the decoder; 0: without one
  double position = 5, size = 7, no_box = 0.5;
};

struct EvaluateOptions {
  double least_confidence = 0.01;  // of a box that counts as found
  double most_overlap = 0.3;       // of two found boxes of a kind
  double shown_confidence = 0.5;   // least one of boxes that are drawn and written
  std::int64_t replicas = 100;     // of the bootstrap over frames
  std::int64_t pictures = 3;       // frames shown in the report
};

struct Options {
  std::string application = "climate_detection";
  climate::FrameDataOptions data;
  ModelOptions model;
  LossOptions loss;
  climate::AugmentOptions augment;
  climate::GenerateOptions generate;
  EvaluateOptions evaluate;
};

inline void declare(Schema& schema, Options& options) {
  schema.add("application", options.application, is_application("climate_detection"));
  climate::declare_data(schema, options.data);
  climate::declare_boxes(schema, options.data);

  schema.add("model.kind", options.model.kind, one_of(model_kinds()));
  schema.add("model.filters", options.model.filters, in_range(1, 65536));
  schema.add("model.batch_norm", options.model.batch_norm, one_of({"none", "pass", "global"}));
  schema.add("model.periodic_longitude", options.model.periodic_longitude);

  schema.add("loss.reconstruction", options.loss.reconstruction, at_least(0));
  schema.add("loss.position", options.loss.position, at_least(0));
  schema.add("loss.size", options.loss.size, at_least(0));
  schema.add("loss.no_box", options.loss.no_box, positive());

  climate::declare_augment(schema, options.augment);
  climate::declare_generate(schema, options.generate);

  schema.add("evaluate.least_confidence", options.evaluate.least_confidence, in_range(0, 1));
  schema.add("evaluate.most_overlap", options.evaluate.most_overlap, in_range(0, 1));
  schema.add("evaluate.shown_confidence", options.evaluate.shown_confidence, in_range(0, 1));
  schema.add("evaluate.replicas", options.evaluate.replicas, in_range(2, 1e5));
  schema.add("evaluate.pictures", options.evaluate.pictures, in_range(0, 100));

  schema.add_use({"model.batch_norm"}, "model.kind", {"racah", "small"});
  schema.add_use({"model.periodic_longitude"}, "model.kind", {"small"});
}

}  // namespace petaflow::climate_detection
