// The options of the HEP application.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema.hpp"
#include "data/augment.hpp"
#include "data/hep.hpp"
#include "hep/event_generator.hpp"
#include "hep/model.hpp"
#include "program/task.hpp"

namespace petaflow::hep {

struct FileOptions {
  std::int64_t channels = 3;             // of the files, taken from the front
  std::int64_t height = 64, width = 64;  // of the network's images
  bool crop = false;                     // larger images lose their last rows and columns; otherwise they are refused
  double cache_gb = 4;                   // sets up to this size are held in memory
  std::string phi_axis;                  // of the images, "rows" or "columns"; empty: found in data.train
  std::vector<double> maxima;            // what normalise = "max" divides by; empty: measured on data.train
  HepDataOptions options = default_options();

  static HepDataOptions default_options() {
    HepDataOptions options;
    options.scale = "max";
    return options;
  }
};

struct GenerateOptions {
  std::int64_t train = 8000, validation = 2000, test = 4000;  // events
  std::int64_t seed = 1;
  std::int64_t gzip = 0;  // compression of the images
};

struct EvaluateOptions {
  bool weighted = false;        // rates and efficiencies of physics weights instead of events
  std::int64_t replicas = 100;  // of the bootstrap
  bool mirrors = false;         // mean over the image and its mirrors in eta and phi
  double min_background = 10;   // events that a background rate must let through
};

struct Options {
  std::string application = "hep";
  FileOptions data;
  ModelOptions model;
  AugmentOptions augment{ImageAxis::kW, false, false, false};
  GenerateOptions generate;
  GeneratorOptions generator;
  EvaluateOptions evaluate;
};

/// How a data set is to be read.
inline HepDataOptions data_options(const FileOptions& data, DataRole role) {
  HepDataOptions options = data.options;
  options.file.channels = data.channels;
  options.file.fewer_channels = role == DataRole::kInspect;
  if (data.crop) options.crop = {data.height, data.width};
  options.maxima.assign(data.maxima.begin(), data.maxima.end());
  options.cache_bytes = static_cast<std::int64_t>(data.cache_gb * (std::int64_t{1} << 30));
  options.labels = role == DataRole::kTrain      ? HepLabels::kBothClasses
                   : role == DataRole::kEvaluate ? HepLabels::kAny
                                                 : HepLabels::kOptional;
  if (role != DataRole::kTrain) options.loss_weight = "none";
  return options;
}

inline void declare(Schema& schema, Options& options) {
  FileOptions& data = options.data;
  schema.add("application", options.application, is_application("hep"));
  schema.add("data.format", data.options.file.format, one_of({"auto", "all_events", "sc17", "class_files"}));
  schema.add("data.channels", data.channels, in_range(1, 1024));
  schema.add("data.height", data.height, in_range(1, 65536));
  schema.add("data.width", data.width, in_range(1, 65536));
  schema.add("data.crop", data.crop);
  schema.add("data.phi_axis", data.phi_axis, one_of({"", "rows", "columns"}));
  schema.add("data.channel_names", data.options.file.channel_names, not_empty());
  schema.add("data.suffix", data.options.file.suffix);
  schema.add("data.dataset", data.options.file.dataset);
  schema.add("data.signal", data.options.file.signal);
  schema.add("data.background", data.options.file.background);
  schema.add("data.pedestal", data.options.pedestal, one_of({"none", "phi_median"}));
  schema.add("data.clip", data.options.clip);
  schema.add("data.transforms", data.options.transforms, one_of({"none", "linear", "signed_log"}));
  schema.add("data.units", data.options.units, in_range(1e-12, 1e12));
  schema.add("data.normalise", data.options.scale, one_of({"none", "max"}));
  schema.add("data.maxima", data.maxima, positive());
  schema.add("data.loss_weight", data.options.loss_weight, one_of({"none", "weight", "normweight"}));
  schema.add("data.cache_gb", data.cache_gb, at_least(0));

  schema.add("model.kind", options.model.kind, one_of({"cnn", "linear"}));
  schema.add("model.filters", options.model.filters, in_range(1, 65536));
  schema.add("model.dropout", options.model.dropout, in_range(0, 0.99));
  schema.add("model.global_pool", options.model.global_pool, one_of({"average", "max"}));
  schema.add("model.hidden", options.model.hidden, in_range(1, 65536));
  schema.add("model.head_dropout", options.model.head_dropout, in_range(0, 0.99));
  schema.add("model.periodic_width", options.model.periodic_width);
  schema.add("model.negative_slope", options.model.negative_slope, in_range(0, 1));

  schema.add("augment.roll_phi", options.augment.roll_phi);
  schema.add("augment.flip_phi", options.augment.flip_phi);
  schema.add("augment.mirror_eta", options.augment.mirror_eta);
  schema.add("augment.energy_jitter", options.augment.energy_jitter, in_range(0, 10));

  schema.add("generate.train", options.generate.train, in_range(0, 1e8));
  schema.add("generate.validation", options.generate.validation, in_range(0, 1e8));
  schema.add("generate.test", options.generate.test, in_range(0, 1e8));
  schema.add("generate.seed", options.generate.seed, at_least(0));
  schema.add("generate.gzip", options.generate.gzip, in_range(0, 9));
  schema.add("generate.signal_fraction", options.generator.signal_fraction, in_range(0, 1));
  schema.add("generate.gluino_mass_gev", options.generator.gluino_mass_gev, in_range(100, 4000));
  schema.add("generate.neutralino_mass_gev", options.generator.neutralino_mass_gev, in_range(1, 4000));
  schema.add("generate.signal_cross_section_pb", options.generator.signal_cross_section_pb, in_range(1e-9, 1e9));
  schema.add("generate.luminosity_per_pb", options.generator.luminosity_per_pb, in_range(1e-9, 1e12));
  schema.add("generate.soft_hadrons", options.generator.soft_hadrons, in_range(0, 1e5));

  schema.add("evaluate.weighted", options.evaluate.weighted);
  schema.add("evaluate.mirrors", options.evaluate.mirrors);
  schema.add("evaluate.replicas", options.evaluate.replicas, in_range(2, 100000));
  schema.add("evaluate.min_background", options.evaluate.min_background, positive());

  schema.add_use({"data.channel_names", "data.suffix"}, "data.format", {"auto", "all_events"});
  schema.add_use({"data.dataset", "data.signal", "data.background"}, "data.format", {"auto", "class_files"});
  schema.add_use({"data.units"}, "data.transforms");
  schema.add_use({"data.maxima"}, "data.normalise", {"max"});
  schema.add_use({"model.filters", "model.dropout", "model.global_pool", "model.hidden", "model.head_dropout",
                  "model.periodic_width", "model.negative_slope"},
                 "model.kind", {"cnn"});
  schema.add_neutral("model.dropout", 0.0);
}

}  // namespace petaflow::hep
