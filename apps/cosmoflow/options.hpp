// The options of the CosmoFlow application.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "config/schema.hpp"
#include "cosmoflow/generate.hpp"
#include "cosmoflow/model.hpp"
#include "data/cosmo.hpp"
#include "program/task.hpp"

namespace petaflow::cosmoflow {

struct FileOptions {
  CosmoDataOptions cubes;
  std::string scale = "log1p";                                                 // of the counts; or "mean"
  std::vector<std::string> parameters = {"Omega_m", "sigma_8", "n_s", "H_0"};  // to be predicted
};

struct EvaluateOptions {
  std::int64_t replicas = 400;           // of the bootstrap
  std::int64_t baseline_samples = 4000;  // of data.train that the classical methods are fitted to; 0: without them
};

struct Options {
  std::string application = "cosmoflow";
  FileOptions data;
  ModelOptions model;
  std::string loss = "mae";
  bool symmetries = false;
  GeneratorOptions generator;  // its ranges are those of the labels of all data
  EvaluateOptions evaluate;
};

/// Positions of data.parameters in the labels of the files.
inline std::vector<std::int64_t> label_positions(const Options& options) {
  std::vector<std::int64_t> positions;
  for (const std::string& name : options.data.parameters) {
    for (std::size_t i = 0; i < kParameterNames.size(); ++i) {
      if (name == kParameterNames[i]) positions.push_back(static_cast<std::int64_t>(i));
    }
  }
  return positions;
}

/// Checks that those of single options cannot make; throw user errors.
inline void check(const Options& options) {
  const std::vector<std::string>& parameters = options.data.parameters;
  if (parameters.empty()) user_error("data.parameters is empty: nothing is to be predicted");
  for (const std::string& name : parameters) {
    if (std::ranges::count(parameters, name) > 1) user_error("data.parameters names {} twice", name);
  }
  const ParameterRanges& ranges = options.generator.ranges;
  check(ranges);
  for (const std::int64_t position : label_positions(options)) {
    const auto i = static_cast<std::size_t>(position);
    if (ranges.half_width(i) > 0) continue;
    user_error(
        "{} is [{}, {}], a single value, so {} cannot be predicted; widen the range, or leave {} out of "
        "data.parameters",
        kRangeKeys[i], ranges.low(i), ranges.high(i), kParameterNames[i], kParameterNames[i]);
  }
}

/// Refuses options of [data] with which the samples that are to be generated could not be read.
inline void check_readable(const Options& options) {
  const std::int64_t channels = std::ssize(kRedshifts),
                     edge = options.generator.universe.particles / options.generator.cuts;
  const CosmoDataOptions& data = options.data.cubes;
  if (data.channels > channels) {
    user_error("generate writes {} channels (redshifts), data.channels is {}; set it to {} or less", channels,
               data.channels, channels);
  }
  if (edge % data.edge != 0) {
    user_error(
        "generate writes cubes of edge {} (generate.particles / generate.cuts), which data.edge = {} does not divide; "
        "set that to {}",
        edge, data.edge, edge);
  }
}

/// How a data set is to be read.  Throws as check() does.
inline CosmoDataOptions data_options(const Options& options, DataRole role) {
  check(options);
  const ParameterRanges& ranges = options.generator.ranges;
  CosmoDataOptions cubes = options.data.cubes;
  for (std::size_t i = 0; i < kParameterNames.size(); ++i) {
    cubes.ranges.push_back({kParameterNames[i], kRangeKeys[i], ranges.low(i), ranges.high(i)});
  }
  cubes.parameters = label_positions(options);
  cubes.labels_optional = role == DataRole::kPredict || role == DataRole::kInspect;
  cubes.as_it_is = role == DataRole::kInspect;
  return cubes;
}

inline void declare(Schema& schema, Options& options) {
  schema.add("application", options.application, is_application("cosmoflow"));
  schema.add("data.format", options.data.cubes.format, one_of({"auto", "tfrecord", "hdf5", "universe", "npy"}));
  schema.add("data.edge", options.data.cubes.edge, in_range(1, 4096));
  schema.add("data.channels", options.data.cubes.channels, in_range(1, 1024));
  schema.add("data.scale", options.data.scale, one_of({"log1p", "mean"}));
  schema.add("data.parameters", options.data.parameters, one_of({"Omega_m", "sigma_8", "n_s", "H_0"}));
  schema.add(kRangeKeys[0], options.generator.ranges.omega_m, positive());
  schema.add(kRangeKeys[1], options.generator.ranges.sigma_8, positive());
  schema.add(kRangeKeys[2], options.generator.ranges.n_s, positive());
  schema.add(kRangeKeys[3], options.generator.ranges.h_0, positive());

  schema.add("model.kind", options.model.kind, one_of({"sc18", "mlperf", "quick"}));
  schema.add("model.filters", options.model.filters, in_range(1, 65536));
  schema.add("model.hidden", options.model.hidden, in_range(1, 65536));
  schema.add("model.dropout", options.model.dropout, in_range(0, 0.99));
  schema.add("model.batch_norm", options.model.batch_norm, one_of({"", "none", "pass", "global"}));
  schema.add("model.loss", options.loss, one_of({"mae", "mse"}));
  schema.add("augment.symmetries", options.symmetries);

  schema.add("generate.folder", options.generator.folder);
  schema.add("generate.format", options.generator.format, one_of({"hdf5", "tfrecord"}));
  schema.add("generate.gzip", options.generator.gzip, in_range(0, 9));
  // Names of samples have eight digits for the universe and three for the part of it.
  schema.add("generate.train", options.generator.train, in_range(0, 1e7));
  schema.add("generate.validation", options.generator.validation, in_range(0, 1e7));
  schema.add("generate.test", options.generator.test, in_range(0, 1e7));
  schema.add("generate.seed", options.generator.seed, at_least(0));
  schema.add("generate.particles", options.generator.universe.particles, in_range(4, 2048));
  schema.add("generate.box", options.generator.universe.box, in_range(1, 1e5));
  schema.add("generate.cuts", options.generator.cuts, in_range(1, 10));

  schema.add("evaluate.replicas", options.evaluate.replicas, in_range(2, 1e5));
  schema.add("evaluate.baseline_samples", options.evaluate.baseline_samples, in_range(0, 1e6));
}

}  // namespace petaflow::cosmoflow
