// The options of [data] that all applications on frames have.
#pragma once

#include "climate/climate_data.hpp"
#include "config/schema.hpp"
#include "program/task.hpp"

namespace petaflow::climate {

struct FrameDataOptions {
  ClimateDataOptions frames;
  double cache_gb = 4;  // sets up to this size are held in memory
};

inline void declare_data(Schema& schema, FrameDataOptions& data) {
  ClimateDataOptions& frames = data.frames;
  schema.add("data.height", frames.height, in_range(2, 65536));
  schema.add("data.width", frames.width, in_range(1, 65536));
  schema.add("data.channels", frames.channels, not_empty());
  schema.add("data.variable_names", frames.file.variable_names);
  schema.add("data.from", frames.from);
  schema.add("data.to", frames.to);
  schema.add("data.normalise", frames.normalise,
             {{"none", Normalise::kNone}, {"min_max", Normalise::kMinMax}, {"z_score", Normalise::kZScore}});
  schema.add("data.stats", frames.stats);
  schema.add("data.offsets", frames.offsets);
  schema.add("data.factors", frames.factors);
  schema.add("data.clip", frames.clip, at_least(0));
  schema.add("data.cache_gb", data.cache_gb, at_least(0));
  schema.add("data.cache", frames.cache);
  schema.add("data.cache_type", frames.cache_type,
             {{"f32", CacheType::kF32}, {"f16", CacheType::kF16}, {"i16", CacheType::kI16}});

  schema.add_use({"data.cache_type"}, "data.cache");
  schema.add_use({"data.stats", "data.offsets", "data.factors", "data.clip"}, "data.normalise", {"min_max", "z_score"});
}

/// Those of applications whose targets are boxes.
inline void declare_boxes(Schema& schema, FrameDataOptions& data) {
  ClimateDataOptions& frames = data.frames;
  schema.add("data.most_boxes", frames.most_boxes, in_range(1, 10000));
  schema.add("data.box_columns", frames.file.box_columns, not_empty());
  schema.add("data.labelled_fraction", frames.labelled_fraction, in_range(0, 1));
  schema.add("data.labelled_seed", frames.labelled_seed, at_least(0));
  schema.add_use({"data.labelled_seed"}, "data.labelled_fraction");
}

/// How files are to be read whose labels nobody looks at.
inline FrameFileOptions without_labels(const FrameDataOptions& data) {
  FrameFileOptions file = data.frames.file;
  file.labels.clear();
  return file;
}

/// How a set is to be read.
inline ClimateDataOptions data_options(const FrameDataOptions& data, DataRole role) {
  ClimateDataOptions frames = data.frames;
  frames.targets_optional = role == DataRole::kPredict || role == DataRole::kInspect;
  frames.as_it_is = role == DataRole::kInspect;
  frames.own_labels_too = role == DataRole::kEvaluate;  // experts', of a network that learnt from heuristics
  if (role == DataRole::kPredict) frames.file = without_labels(data);
  if (frames.targets_optional) frames.cache.clear();  // read once
  frames.cache_bytes = static_cast<std::int64_t>(data.cache_gb * (std::int64_t{1} << 30));
  return frames;
}

/// Other sets are scaled as the training set is, and their grid is compared with its.
inline void keep_scaling(FrameDataOptions& data, const ClimateData& train) {
  data.frames.offsets = train.scaling().offsets;
  data.frames.factors = train.scaling().factors;
  data.frames.trained_on = train.grid();
}

}  // namespace petaflow::climate
