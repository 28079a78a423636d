#include "climate_detection/reporter.hpp"

#include <algorithm>
#include <array>

#include "climate/map_picture.hpp"
#include "climate_detection/evaluator.hpp"
#include "measure/rates.hpp"
#include "report/evaluated_runs.hpp"
#include "report/html.hpp"
#include "report/json_values.hpp"
#include "report/metric_json.hpp"

namespace petaflow::climate_detection {
namespace {

using nlohmann::json;

constexpr std::size_t kKinds = climate::kBoxKinds.size();
constexpr std::array<const char*, kKinds> kNames = {"tropical depressions", "tropical cyclones",
                                                    "extratropical cyclones", "atmospheric rivers"};
constexpr std::array<const char*, 2> kThresholds = {"0.1", "0.5"};

const DetectionEvaluator& of_detection(const Evaluator& evaluator) {
  return dynamic_cast<const DetectionEvaluator&>(evaluator);
}

std::string kind_key(std::size_t kind) { return std::string(climate::kBoxKinds[kind]); }

/// In per cent, "–" where there is none.
std::string percent_html(const json& results, const std::string& key) {
  const std::string text = with_error(metric_at(results, key), 100);
  return text.empty() ? "–" : text;
}

std::string precision_table(const EvaluatedRun& run, bool several) {
  const json& results = run.results();
  std::vector<std::vector<std::string>> rows = {{"", "marked", "found", "overlap of 0.1", "overlap of 0.5"}};
  for (std::size_t k = 0; k < kKinds; ++k) {
    std::vector<std::string>& row = rows.emplace_back(1, kNames[k]);
    for (const char* boxes : {"known", "found"}) {
      row.push_back(grouped(number_at(results.at(boxes), kind_key(k).c_str())));
    }
    for (const char* mean : kAveragePrecisions)
      row.push_back(percent_html(results, fmt::format("{}_{}", mean, kind_key(k))));
  }
  rows.push_back(
      {"mean", "", "", percent_html(results, kAveragePrecisions[0]), percent_html(results, kAveragePrecisions[1])});
  return table(
      rows,
      fmt::format("Average precision{} in per cent, with bootstrap errors over frames. A box is found where it "
                  "overlaps one of its kind by so much: intersection over union. The found ones are counted "
                  "down to the least confidence.",
                  several ? " of " + html_escape(run.run->name) : ""),
      "sum");
}

json boxes_json(const std::vector<FoundBox>& boxes) {
  json rows = json::array();
  for (const FoundBox& box : boxes) {
    rows.push_back({{"kind", box.kind}, {"confidence", rounded(static_cast<double>(box.confidence))}});
    for (const auto& [name, value] : {std::pair("ymin", box.ymin), std::pair("xmin", box.xmin),
                                      std::pair("ymax", box.ymax), std::pair("xmax", box.xmax)}) {
      rows.back()[name] = rounded(static_cast<double>(value), 6);
    }
  }
  return rows;
}

std::string tone(std::size_t kind) { return fmt::format("s{}", std::array{5, 2, 6, 3}[kind]); }

/// Outlines of boxes, in degrees; one that reaches out of the map goes on at the other side.
void draw_boxes(Plot& plot, const json& frame, const json& boxes) {
  const double width = frame.at("width").get<double>(), height = frame.at("height").get<double>();
  for (const json& box : boxes) {
    const double south = box.at("ymin").get<double>() * 180 / height - 90,
                 north = box.at("ymax").get<double>() * 180 / height - 90,
                 west = box.at("xmin").get<double>() * 360 / width, east = box.at("xmax").get<double>() * 360 / width;
    const std::string colour = tone(box.at("kind").get<std::size_t>());
    for (const double turn : {-360, 0, 360}) {
      const double left = std::max(0.0, west + turn), right = std::min(360.0, east + turn);
      if (left >= right) continue;
      std::vector<double> x = {left, right, right, left, left}, y = {south, south, north, north, south};
      if (west + turn < 0) x = {left, right, right, left}, y = {south, south, north, north};
      if (east + turn > 360) x = {right, left, left, right}, y = {south, south, north, north};
      plot.outline(x, y, colour);
    }
  }
}

std::string maps_html(const json& curves, const std::string& whose) {
  std::vector<LegendEntry> entries;
  for (std::size_t k = 0; k < kKinds; ++k) entries.push_back({kNames[k], tone(k), "line"});
  std::string html;
  for (const json& frame : curves.at("frames")) {
    std::string maps;
    for (const auto& [boxes, title] : {std::pair("known", "marked boxes over "), std::pair("found", "found over ")}) {
      maps += climate::map_panel(frame, frame.at("png").at(0), title + climate::field_title(frame),
                                 [&](Plot& plot) { draw_boxes(plot, frame, frame.at(boxes)); });
    }
    html += climate::map_figure(frame, maps, whose,
                                fmt::format("Found boxes have a confidence of {} or more. {}",
                                            readable(number_at(curves, "shown_confidence"), 3), legend_html(entries)));
  }
  return html.empty() ? "" : "<div class=\"wide\">" + html + "</div>\n";
}

}  // namespace

std::string DetectionReporter::table(const Evaluator& evaluator) const {
  const DetectionReport& report = of_detection(evaluator).report();
  const auto percent = [](const Metric& metric) {
    if (!metric.value) return std::string("none");
    const std::string value = fmt::format("{:.1f}", 100 * *metric.value);
    return metric.error ? fmt::format("{} +- {:.1f}", value, 100 * *metric.error) : value;
  };
  std::vector<std::vector<std::string>> rows = {{"average precision %", "known", "found"}};
  for (const char* threshold : kThresholds) rows.front().push_back(fmt::format("IoU {}", threshold));
  for (std::size_t k = 0; k < kKinds; ++k) {
    rows.push_back({kNames[k], fmt::format("{:.0f}", report.known[k]), fmt::format("{:.0f}", report.found[k])});
    for (const auto& at : report.at) rows.back().push_back(percent(at.kinds[k]));
  }
  rows.push_back({"mean", "", ""});
  for (const auto& at : report.at) rows.back().push_back(percent(at.mean));
  return format_table(rows);
}

json DetectionReporter::results(const Evaluator& evaluator) const {
  const DetectionReport& report = of_detection(evaluator).report();
  json results = {{"frames", report.frames}};
  for (std::size_t t = 0; t < kAveragePrecisions.size(); ++t) {
    put(results, kAveragePrecisions[t], report.at[t].mean);
    for (std::size_t k = 0; k < kKinds; ++k) {
      put(results, fmt::format("{}_{}", kAveragePrecisions[t], kind_key(k)), report.at[t].kinds[k]);
    }
  }
  for (std::size_t k = 0; k < kKinds; ++k) {
    results["known"][kind_key(k)] = report.known[k];
    results["found"][kind_key(k)] = report.found[k];
  }
  return results;
}

json DetectionReporter::curves(const Evaluator& evaluator) const {
  const DetectionEvaluator& detection = of_detection(evaluator);
  json frames = json::array();
  for (const PicturedFrame& picture : detection.pictures()) {
    json& frame = frames.emplace_back(climate::frame_picture(detection.data(), picture.index));
    frame["known"] = boxes_json(picture.known);
    frame["found"] = boxes_json(picture.found);
  }
  return {{"frames", frames}, {"shown_confidence", detection.options().shown_confidence}};
}

std::vector<KeyNumber> DetectionReporter::key_numbers(const RunRecord& run) const {
  const json* results = evaluation_part(run, "results");
  if (results == nullptr) return {};
  std::vector<KeyNumber> numbers;
  for (std::size_t t = 0; t < kAveragePrecisions.size(); ++t) {
    const Metric metric = metric_at(*results, kAveragePrecisions[t]);
    if (!metric.value) continue;
    numbers.push_back({fmt::format("mean average precision, overlap of {}", kThresholds[t]),
                       readable(100 * *metric.value, 3) + " %", evaluated_set(run)});
  }
  return numbers;
}

void DetectionReporter::add_sections(Page& page, const std::vector<RunRecord>& runs) const {
  const std::vector<EvaluatedRun> evaluated = evaluated_runs(runs);
  if (evaluated.empty()) return;
  const bool several = runs.size() > 1;
  std::string html = evaluated_sets(evaluated, "frames", [](const json&) { return std::string(); });
  for (const EvaluatedRun& one : evaluated) html += precision_table(one, several);
  page.section("Result", html);
  const json* curves = evaluated.front().curves();
  if (curves == nullptr || !curves->contains("frames")) return;
  const std::string maps = maps_html(*curves, several ? html_escape(evaluated.front().run->name) : "the network");
  if (!maps.empty()) page.section("Maps", maps);
}

}  // namespace petaflow::climate_detection
