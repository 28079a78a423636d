// What predict writes: boxes as GeoJSON (RFC 7946).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "climate/climate_data.hpp"
#include "climate_detection/evaluator.hpp"
#include "program/task.hpp"

namespace petaflow::climate_detection {

/// The outline of a box in degrees, longitudes in [-180, 180]: a Polygon, or a MultiPolygon that is cut at 180 degrees.
/// A pixel reaches halfway to its neighbours.
nlohmann::json box_geometry(const FoundBox& box, const climate::Grid& grid);

/// A FeatureCollection with a feature for each box of at least evaluate.shown_confidence: class, confidence, time (null
/// where it is not known), file, and frame in it, counted from 0.
class BoxWriter final : public PredictionWriter {
 public:
  /// The data must outlive it.
  BoxWriter(std::string path, const climate::ClimateData& data, const Options& options)
      : path_(std::move(path)), data_(data), map_(cell_map(options, data)) {
    map_.least_confidence = options.evaluate.shown_confidence;
  }

  void append(const PredictedBatch& batch) override;
  void close(const std::map<std::string, std::string>& attributes) override;

 private:
  std::string path_;
  const climate::ClimateData& data_;
  CellMap map_;
  nlohmann::json features_ = nlohmann::json::array();
};

}  // namespace petaflow::climate_detection
