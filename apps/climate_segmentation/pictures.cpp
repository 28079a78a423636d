#include "climate_segmentation/pictures.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "report/html.hpp"
#include "report/json_values.hpp"
#include "report/page.hpp"
#include "report/png.hpp"

namespace petaflow::climate_segmentation {
namespace {

using nlohmann::json;

struct Tint {
  const char* name;
  Colour colour;
};
constexpr std::array<Tint, kClasses> kClassTints = {
    {{"background", {226, 226, 218}}, {"tropical cyclone", {200, 50, 60}}, {"atmospheric river", {45, 105, 185}}}};
/// Agreement of a predicted pixel with the known one.
constexpr std::array<Tint, 5> kErrorTints = {{{"background, right", {226, 226, 218}},
                                              {"event, right", {120, 160, 120}},
                                              {"event missed", {215, 135, 40}},
                                              {"event where there is none", {150, 70, 170}},
                                              {"the other event", {40, 40, 40}}}};

std::uint8_t agreement(std::uint8_t known, std::uint8_t predicted) {
  if (known == predicted) return known == 0 ? 0 : 1;
  if (predicted == 0) return 2;
  return known == 0 ? 3 : 4;
}

template <std::size_t n>
std::string tinted_png(const std::vector<std::uint8_t>& map, std::int64_t height, std::int64_t width,
                       const std::array<Tint, n>& tints) {
  std::vector<Colour> colours;
  for (const Tint& tint : tints) colours.push_back(tint.colour);
  return png_uri(class_png(map, height, width, colours));
}

template <std::size_t n>
std::string legend(const std::array<Tint, n>& tints) {
  std::string html;
  for (const auto& [name, c] : tints) {
    html += fmt::format("{}<span style=\"color:rgb({} {} {})\">&#9632;</span> {}", html.empty() ? "" : ", ", c[0], c[1],
                        c[2], name);
  }
  return html;
}

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

/// The field that is shown, in its own units.
struct ShownField {
  climate::Field about;
  std::vector<float> values;
};

ShownField shown_field(const climate::ClimateData& data, std::int64_t index) {
  const std::vector<int>& fields = data.fields();
  const bool has_water = std::ranges::find(fields, climate::kTmq) != fields.end();
  const std::array<int, 1> field = {has_water ? climate::kTmq : fields.front()};
  climate::RawFields raw;
  data.open(index)->read_fields(data.origin(index).index, field, raw);
  ShownField shown{climate::kFields[static_cast<std::size_t>(field[0])], {}};
  for (std::int64_t p = 0; p < data.grid().height() * data.grid().width(); ++p) {
    shown.values.push_back(raw.values[static_cast<std::size_t>(raw.first[0] + p * raw.step)]);
  }
  return shown;
}

json picture_json(const climate::ClimateData& data, const PicturedFrame& picture) {
  const std::int64_t height = data.grid().height(), width = data.grid().width();
  const ShownField shown = shown_field(data, picture.index);
  const auto [low, high] = std::ranges::minmax(shown.values);
  std::vector<float> field = northward_up<float>(shown.values, width);
  for (float& value : field) value = high > low ? (value - low) / (high - low) : 0.0F;
  const auto known = northward_up<std::uint8_t>(picture.known, width),
             predicted = northward_up<std::uint8_t>(picture.predicted, width);
  std::vector<std::uint8_t> errors;
  for (std::size_t p = 0; p < known.size(); ++p) errors.push_back(agreement(known[p], predicted[p]));
  const SampleOrigin origin = data.origin(picture.index);
  return {{"file", data.files()[static_cast<std::size_t>(origin.file)]},
          {"frame", origin.index},
          {"time", data.open(picture.index)->time(origin.index)},
          {"field", std::string(shown.about.long_name)},
          {"units", std::string(shown.about.units)},
          {"low", rounded(static_cast<double>(low))},
          {"high", rounded(static_cast<double>(high))},
          {"height", height},
          {"width", width},
          {"png",
           {png_uri(heat_png(field, height, width)), tinted_png(known, height, width, kClassTints),
            tinted_png(predicted, height, width, kClassTints), tinted_png(errors, height, width, kErrorTints)}}};
}

}  // namespace

json pictures_json(const SegmentationEvaluator& evaluator) {
  json frames = json::array();
  for (const PicturedFrame& picture : evaluator.pictures()) frames.push_back(picture_json(evaluator.data(), picture));
  return {{"frames", frames}};
}

std::string pictures_html(const json& pictures, const std::string& whose) {
  std::string html;
  for (const json& frame : pictures.at("frames")) {
    const double ratio = frame.at("height").get<double>() / frame.at("width").get<double>();
    constexpr double kWidth = 440, kInner = kWidth - 62;
    const std::array<std::string, 4> titles = {
        fmt::format("{}, {} to {} {}", frame.at("field").get<std::string>(), readable(frame.at("low"), 3),
                    readable(frame.at("high"), 3), frame.at("units").get<std::string>()),
        "known classes", "predicted classes", "errors"};
    std::string maps = "<div class=\"side\">\n";
    for (std::size_t i = 0; i < titles.size(); ++i) {
      Plot plot({"longitude"}, {"latitude"}, kWidth, kInner * ratio + 66);
      plot.image(frame.at("png").at(i), 0, 360, -90, 90);
      const std::string text = html_escape(titles[i]);
      maps += "<div><div class=\"panel\">" + text + "</div>" + plot.svg(text) + "</div>\n";
    }
    const std::string time = frame.value("time", "");
    html += figure_of(
        maps + "</div>\n",
        fmt::format("Frame {} of <code>{}</code>{} as {} sees it. Classes: {}. Errors: {}.",
                    frame.at("frame").get<std::int64_t>() + 1, html_escape(frame.at("file").get<std::string>()),
                    time.empty() ? "" : " (" + html_escape(time) + ")", whose, legend(kClassTints),
                    legend(kErrorTints)));
  }
  return html.empty() ? "" : "<div class=\"wide\">" + html + "</div>\n";
}

}  // namespace petaflow::climate_segmentation
