// The options of the climate segmentation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "climate/augmentation.hpp"
#include "climate/data_options.hpp"
#include "climate/frame_commands.hpp"
#include "climate/generate_frames.hpp"
#include "climate_segmentation/model.hpp"
#include "config/schema.hpp"
#include "program/task.hpp"

namespace petaflow::climate_segmentation {

struct LossOptions {
  std::string weights = "sqrt";            // of the classes: 1 / sqrt(f), "eighth": f^(-1/8), "none", or "given"
  std::vector<double> frequencies = {};    // f of the classes among pixels; empty: measured on data.train
  std::vector<double> class_weights = {};  // with "given"
};

struct EvaluateOptions {
  std::vector<double> class_offsets = {};  // added to the logits; empty: chosen on data.validation after the training
  std::int64_t replicas = 100;             // of the bootstrap over frames
  std::int64_t baseline_trials = 500;      // of the search for the heuristics' thresholds; 0: without them
  std::int64_t baseline_frames = 60;       // of data.train that it is made on
  std::int64_t pictures = 3;               // frames shown in the report
};

struct Options {
  std::string application = "climate_segmentation";
  climate::FrameDataOptions data;
  ModelOptions model;
  LossOptions loss;
  climate::AugmentOptions augment;
  climate::GenerateOptions generate;
  EvaluateOptions evaluate;
  climate::LabelRules label;
};

inline void declare(Schema& schema, Options& options) {
  schema.add("application", options.application, is_application("climate_segmentation"));
  climate::declare_data(schema, options.data);
  schema.add("data.labels", options.data.frames.file.labels);
  schema.add("data.label_set", options.data.frames.file.label_set, in_range(0, 100));
  schema.add_use({"data.label_set"}, "data.labels", {""});

  schema.add("model.kind", options.model.kind, one_of(model_kinds()));
  schema.add("model.filters", options.model.filters, in_range(1, 65536));
  schema.add("model.batch_norm", options.model.batch_norm, one_of({"none", "pass", "global"}));
  schema.add("model.periodic_longitude", options.model.periodic_longitude);

  schema.add("loss.weights", options.loss.weights, one_of({"none", "sqrt", "eighth", "given"}));
  schema.add("loss.frequencies", options.loss.frequencies, positive());
  schema.add("loss.class_weights", options.loss.class_weights, at_least(0));

  climate::declare_augment(schema, options.augment);

  climate::declare_generate(schema, options.generate);

  schema.add("evaluate.class_offsets", options.evaluate.class_offsets, in_range(-1000, 1000));
  schema.add("evaluate.replicas", options.evaluate.replicas, in_range(2, 1e5));
  schema.add("evaluate.baseline_trials", options.evaluate.baseline_trials, in_range(0, 1e6));
  schema.add("evaluate.baseline_frames", options.evaluate.baseline_frames, in_range(1, 1e6));
  schema.add("evaluate.pictures", options.evaluate.pictures, in_range(0, 100));

  climate::declare_label(schema, options.label);

  schema.add_use({"loss.frequencies"}, "loss.weights", {"sqrt", "eighth"});
  schema.add_use({"loss.class_weights"}, "loss.weights", {"given"});
  schema.add_use({"model.filters"}, "model.kind", {"unet", "pixel"});
  schema.add_use({"model.periodic_longitude"}, "model.kind", {"unet"});
  schema.add_neutral("evaluate.baseline_trials", std::int64_t{0});
  schema.add_use({"evaluate.baseline_frames"}, "evaluate.baseline_trials");
}

/// Checks that those of single options cannot make; throws user errors.
inline void check(const Options& options) {
  const auto three = [](const char* key, const std::vector<double>& numbers, bool may_be_empty) {
    if (std::ssize(numbers) == std::ssize(climate::kTagNames) || (numbers.empty() && may_be_empty)) return;
    user_error("{} must have a number for each of background, tc and ar, found {}", key, numbers.size());
  };
  three("loss.frequencies", options.loss.frequencies, true);
  three("loss.class_weights", options.loss.class_weights, options.loss.weights != "given");
  three("evaluate.class_offsets", options.evaluate.class_offsets, true);
  const ModelOptions& model = options.model;
  if (model.batch_norm == "global" && model.kind != "unet" && model.kind != "pixel") {
    user_error("model.batch_norm = \"global\" is for \"unet\" and \"pixel\"; with model.kind = \"{}\" set \"pass\"{}",
               model.kind, model.kind == "deepcam" ? "" : " or \"none\"");
  }
  if (model.batch_norm == "none" && model.kind == "deepcam") {
    user_error("model.kind = \"deepcam\" has batch norms; set model.batch_norm to \"pass\"");
  }
}

}  // namespace petaflow::climate_segmentation
