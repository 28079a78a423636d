#include "climate/map_picture.hpp"

#include <algorithm>
#include <array>

#include "report/html.hpp"
#include "report/json_values.hpp"
#include "report/page.hpp"
#include "report/png.hpp"

namespace petaflow::climate {
namespace {

using nlohmann::json;

/// The field that is shown, in its own units.
struct ShownField {
  Field about;
  std::vector<float> values;
};

ShownField shown_field(const ClimateData& data, std::int64_t index) {
  const std::vector<int>& fields = data.fields();
  const bool has_water = std::ranges::find(fields, kTmq) != fields.end();
  const std::array<int, 1> field = {has_water ? kTmq : fields.front()};
  RawFields raw;
  data.open(index)->read_fields(data.origin(index).index, field, raw);
  ShownField shown{kFields[static_cast<std::size_t>(field[0])], {}};
  for (std::int64_t p = 0; p < data.grid().height() * data.grid().width(); ++p) {
    shown.values.push_back(raw.values[static_cast<std::size_t>(raw.first[0] + p * raw.step)]);
  }
  return shown;
}

}  // namespace

bool is_pictured(std::int64_t index, std::int64_t shown, std::int64_t frames) {
  shown = std::min(shown, frames);
  for (std::int64_t i = 0; i < shown; ++i) {
    if (index == (2 * i + 1) * frames / (2 * shown)) return true;
  }
  return false;
}

json frame_picture(const ClimateData& data, std::int64_t index) {
  const std::int64_t height = data.grid().height(), width = data.grid().width();
  const ShownField shown = shown_field(data, index);
  const auto [low, high] = std::ranges::minmax(shown.values);
  std::vector<float> field = northward_up<float>(shown.values, width);
  for (float& value : field) value = high > low ? (value - low) / (high - low) : 0.0F;
  const SampleOrigin origin = data.origin(index);
  return {{"file", data.files()[static_cast<std::size_t>(origin.file)]},
          {"frame", origin.index},
          {"time", data.open(index)->time(origin.index)},
          {"field", std::string(shown.about.long_name)},
          {"units", std::string(shown.about.units)},
          {"low", rounded(static_cast<double>(low))},
          {"high", rounded(static_cast<double>(high))},
          {"height", height},
          {"width", width},
          {"png", {png_uri(heat_png(field, height, width))}}};
}

std::string field_title(const json& frame) {
  return html_escape(fmt::format("{}, {} to {} {}", frame.at("field").get<std::string>(), readable(frame.at("low"), 3),
                                 readable(frame.at("high"), 3), frame.at("units").get<std::string>()));
}

std::string map_panel(const json& frame, const std::string& png, const std::string& title,
                      const std::function<void(Plot&)>& draw) {
  const double ratio = frame.at("height").get<double>() / frame.at("width").get<double>();
  constexpr double kWidth = 440, kInner = kWidth - 62;
  Plot plot({"longitude"}, {"latitude"}, kWidth, kInner * ratio + 66);
  plot.image(png, 0, 360, -90, 90);
  if (draw) draw(plot);
  return "<div><div class=\"panel\">" + title + "</div>" + plot.svg(title) + "</div>\n";
}

std::string map_figure(const json& frame, const std::string& panels, const std::string& whose,
                       const std::string& text) {
  const std::string time = frame.value("time", "");
  return figure_of(
      "<div class=\"side\">\n" + panels + "</div>\n",
      fmt::format("Frame {} of <code>{}</code>{} as {} sees it. {}", frame.at("frame").get<std::int64_t>() + 1,
                  html_escape(frame.at("file").get<std::string>()), time.empty() ? "" : " (" + html_escape(time) + ")",
                  whose, text));
}

}  // namespace petaflow::climate
