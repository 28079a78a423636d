#include "climate_segmentation/pictures.hpp"

#include <array>
#include <vector>

#include <nlohmann/json.hpp>

#include "climate/map_picture.hpp"
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

json picture_json(const climate::ClimateData& data, const PicturedFrame& picture) {
  const std::int64_t height = data.grid().height(), width = data.grid().width();
  const auto known = climate::northward_up<std::uint8_t>(picture.known, width),
             predicted = climate::northward_up<std::uint8_t>(picture.predicted, width);
  std::vector<std::uint8_t> errors;
  for (std::size_t p = 0; p < known.size(); ++p) errors.push_back(agreement(known[p], predicted[p]));
  json frame = climate::frame_picture(data, picture.index);
  for (const std::string& png :
       {tinted_png(known, height, width, kClassTints), tinted_png(predicted, height, width, kClassTints),
        tinted_png(errors, height, width, kErrorTints)}) {
    frame["png"].push_back(png);
  }
  return frame;
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
    const std::array<std::string, 4> titles = {climate::field_title(frame), "known classes", "predicted classes",
                                               "errors"};
    std::string maps;
    for (std::size_t i = 0; i < titles.size(); ++i) maps += climate::map_panel(frame, frame.at("png").at(i), titles[i]);
    html += climate::map_figure(frame, maps, whose,
                                fmt::format("Classes: {}. Errors: {}.", legend(kClassTints), legend(kErrorTints)));
  }
  return html.empty() ? "" : "<div class=\"wide\">" + html + "</div>\n";
}

}  // namespace petaflow::climate_segmentation
