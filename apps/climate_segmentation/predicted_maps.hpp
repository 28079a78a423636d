// What predict writes: maps of classes and probabilities as CF netCDF.
#pragma once

#include <map>
#include <string>

#include "base/error.hpp"
#include "climate/climate_data.hpp"
#include "climate/map_file.hpp"
#include "climate_segmentation/class_offsets.hpp"
#include "program/task.hpp"

namespace petaflow::climate_segmentation {

class MapWriter final : public PredictionWriter {
 public:
  /// The data must outlive it.
  MapWriter(const std::string& path, const climate::ClimateData& data, const ClassOffsets& offsets)
      : data_(data),
        offsets_(offsets),
        calendar_(data.open(0)->calendar()),
        file_(path, data.grid(), calendar_, true) {}

  void append(const PredictedBatch& batch) override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::int64_t index = batch.indices[i];
      const PredictedOutput& output = batch.outputs.front();
      const auto source = data_.open(index);
      if (source->calendar() != calendar_) {
        user_error("{} has the calendar {}, but frames before it have {}: predict them one by one", source->path(),
                   source->calendar(), calendar_);
      }
      file_.append(source->time(data_.origin(index).index), source->path(), decide(output.value(i), offsets_),
                   output.score(i));
    }
  }
  void close(const std::map<std::string, std::string>& attributes) override {
    std::map<std::string, std::string> all = attributes;
    all["class_offsets"] = offsets_text(offsets_);
    file_.close(all);
  }

 private:
  const climate::ClimateData& data_;
  ClassOffsets offsets_;
  std::string calendar_;
  climate::MapFile file_;
};

}  // namespace petaflow::climate_segmentation
