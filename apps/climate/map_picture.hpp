// Maps of a report: a field of a frame as a picture, with what an application draws beside it or over it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "climate/climate_data.hpp"
#include "report/plot.hpp"

namespace petaflow::climate {

/// Whether a report that shows so many of the frames of a set shows this one: they lie evenly in it.
bool is_pictured(std::int64_t index, std::int64_t shown, std::int64_t frames);

/// Rows from north to south, as pictures have them.
template <class T>
std::vector<T> northward_up(std::span<const T> map, std::int64_t width) {
  std::vector<T> turned;
  for (auto row = std::ssize(map) / width; row-- > 0;) {
    const auto from = map.subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width));
    turned.insert(turned.end(), from.begin(), from.end());
  }
  return turned;
}

/// {"file", "frame", "time", "field", "units", "low", "high", "height", "width", "png": [1]}: a frame with the water of
/// its columns (or the first channel) as a picture.
nlohmann::json frame_picture(const ClimateData& data, std::int64_t index);

/// "water of the column, 0.3 to 71 kg m-2": of frame_picture(), HTML.
std::string field_title(const nlohmann::json& frame);

/// A panel of a figure: picture `png` of a frame between its axes under a title (HTML), with what `draw` adds.
std::string map_panel(const nlohmann::json& frame, const std::string& png, const std::string& title,
                      const std::function<void(Plot&)>& draw = {});

/// Panels as a figure.  The caption tells the frame, that it is shown as `whose` ("the network", or a name) sees it,
/// and then the text (HTML).
std::string map_figure(const nlohmann::json& frame, const std::string& panels, const std::string& whose,
                       const std::string& text);

}  // namespace petaflow::climate
