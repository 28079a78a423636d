// Maps of a report: a field, the known classes, the predicted ones, and where they differ.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "climate_segmentation/evaluator.hpp"

namespace petaflow::climate_segmentation {

/// {"frames": [{"file", "frame", "time", "field", "units", "low", "high", "height", "width", "png": [4]}]}: the
/// pictures that an evaluation has kept, with the water of the column (or the first channel) as the field.
nlohmann::json pictures_json(const SegmentationEvaluator& evaluator);

/// Figures of what pictures_json() gave, HTML; empty where there are none.
/// @param whose  "the network", or a name
std::string pictures_html(const nlohmann::json& pictures, const std::string& whose);

}  // namespace petaflow::climate_segmentation
