#include "climate_detection/box_file.hpp"

#include <algorithm>
#include <cmath>

#include "io/atomic_file.hpp"
#include "report/json_values.hpp"

namespace petaflow::climate_detection {
namespace {

using nlohmann::json;

/// Of a row counted from the southern edge of the first pixels.
double latitude_of(double y, const std::vector<double>& latitude) {
  const double place = y - 0.5, last = static_cast<double>(latitude.size() - 1);
  const auto below = static_cast<std::size_t>(std::clamp(std::floor(place), 0.0, last - 1));
  const double step = latitude[below + 1] - latitude[below];
  return std::clamp(latitude[below] + (place - static_cast<double>(below)) * step, -90.0, 90.0);
}

/// Counterclockwise, closed.
json rectangle(double west, double south, double east, double north) {
  const auto point = [](double x, double y) { return json::array({rounded(x, 7), rounded(y, 7)}); };
  return json::array({json::array(
      {point(west, south), point(east, south), point(east, north), point(west, north), point(west, south)})});
}

}  // namespace

json box_geometry(const FoundBox& box, const climate::Grid& grid) {
  const double step = 360 / static_cast<double>(grid.width()), width = static_cast<double>(box.xmax - box.xmin) * step,
               south = latitude_of(static_cast<double>(box.ymin), grid.latitude),
               north = latitude_of(static_cast<double>(box.ymax), grid.latitude);
  double west = grid.longitude.front() + (static_cast<double>(box.xmin) - 0.5) * step;
  west -= 360 * std::floor((west + 180) / 360);
  if (width >= 360) west = -180;
  const double east = west + std::min(width, 360.0);
  if (east <= 180) return {{"type", "Polygon"}, {"coordinates", rectangle(west, south, east, north)}};
  return {{"type", "MultiPolygon"},
          {"coordinates", {rectangle(west, south, 180, north), rectangle(-180, south, east - 360, north)}}};
}

void BoxWriter::append(const PredictedBatch& batch) {
  const PredictedOutput& cells = batch.outputs.front();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::int64_t index = batch.indices[i];
    const SampleOrigin origin = data_.origin(index);
    const std::string time = data_.open(index)->time(origin.index);
    for (const FoundBox& box : boxes_of_cells(map_, cells.shape, cells.score(i))) {
      json properties = {{"class", climate::kBoxKinds[static_cast<std::size_t>(box.kind)]},
                         {"confidence", rounded(static_cast<double>(box.confidence), 6)},
                         {"time", nullptr},
                         {"file", data_.files()[static_cast<std::size_t>(origin.file)]},
                         {"frame", origin.index}};
      if (!time.empty()) properties["time"] = time;
      features_.push_back(
          {{"type", "Feature"}, {"geometry", box_geometry(box, data_.grid())}, {"properties", std::move(properties)}});
    }
  }
}

void BoxWriter::close(const std::map<std::string, std::string>& attributes) {
  json file = attributes;
  file["type"] = "FeatureCollection";
  file["features"] = std::move(features_);
  write_file_atomically(path_, file.dump(1) + "\n");
}

}  // namespace petaflow::climate_detection
