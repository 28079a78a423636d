#include "climate_segmentation/reporter.hpp"

#include <algorithm>

#include "climate_segmentation/evaluator.hpp"
#include "climate_segmentation/pictures.hpp"
#include "measure/rates.hpp"
#include "report/comparison.hpp"
#include "report/evaluated_runs.hpp"
#include "report/html.hpp"
#include "report/json_values.hpp"
#include "report/metric_json.hpp"

namespace petaflow::climate_segmentation {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 3> kNames = {"background", "tropical cyclones", "atmospheric rivers"};

const SegmentationEvaluator& of_segmentation(const Evaluator& evaluator) {
  return dynamic_cast<const SegmentationEvaluator&>(evaluator);
}

std::string iou_key(std::size_t c) { return fmt::format("iou_{}", climate::kTagNames[c]); }

/// "71.3 +- 0.9" of a share, in per cent.
std::string percent_text(const Metric& metric) {
  if (!metric.value) return "none";
  const std::string value = fmt::format("{:.1f}", 100 * *metric.value);
  return metric.error ? fmt::format("{} +- {:.1f}", value, 100 * *metric.error) : value;
}

void put_report(json& to, const SegmentationReport& report) {
  put(to, "iou_mean", report.iou_mean);
  for (std::size_t c = 0; c < report.iou.size(); ++c) put(to, iou_key(c), report.iou[c]);
  put(to, "iou_mlperf", report.iou_mlperf);
  put(to, "accuracy", report.accuracy);
}

/// A row of a run's table of methods: intersection over union in per cent.
std::vector<std::string> method_cells(const json& method) {
  std::vector<std::string> cells;
  for (const std::string& key : {std::string("iou_mean"), iou_key(0), iou_key(1), iou_key(2), std::string("iou_mlperf"),
                                 std::string("accuracy")}) {
    const std::string text = with_error(metric_at(method, key), 100);
    cells.push_back(text.empty() ? "–" : text);
  }
  return cells;
}

std::string methods_table(const EvaluatedRun& run, bool several) {
  const json& results = run.results();
  std::vector<std::vector<std::string>> rows = {
      {"", "mean", kNames[0], kNames[1], kNames[2], "MLPerf’s mean", "pixels right"}};
  const auto add = [&](const std::string& name, const std::string& how, const json& method) {
    std::vector<std::string> row = method_cells(method);
    row.insert(row.begin(), html_escape(name) + (how.empty() ? "" : "<small>" + html_escape(how) + "</small>"));
    rows.push_back(std::move(row));
  };
  add("network", results.value("how", ""), results);
  for (const json& other : results.value("others", json::array())) {
    add(other.at("method"), other.value("how", ""), other);
  }
  return table(rows,
               fmt::format("Intersection over union{} in per cent, with bootstrap errors over frames. MLPerf’s mean is "
                           "that of the frames, and counts an absent class as 100.",
                           several ? " of " + html_escape(run.run->name) : ""),
               "full");
}

std::string confusion_table(const EvaluatedRun& run, bool several) {
  const json& confusion = run.results().at("confusion");
  std::vector<std::vector<std::string>> rows = {{"known"}};
  for (const char* name : kNames) rows.front().push_back(std::string("predicted: ") + name);
  for (std::size_t k = 0; k < kNames.size(); ++k) {
    const json& known = confusion.at(std::string(climate::kTagNames[k]));
    std::vector<std::string>& row = rows.emplace_back(1, kNames[k]);
    for (const std::string_view tag : climate::kTagNames) {
      row.push_back(grouped(number_at(known, std::string(tag).c_str())));
    }
  }
  return table(
      rows, fmt::format("Pixels by known and predicted class{}.", several ? " of " + html_escape(run.run->name) : ""));
}

}  // namespace

std::string SegmentationReporter::table(const Evaluator& evaluator) const {
  std::vector<std::vector<std::string>> rows = {{"", "mean IoU %", "background", "tc", "ar", "MLPerf", "accuracy"}};
  std::string notes;
  for (const Method& method : of_segmentation(evaluator).methods()) {
    const SegmentationReport& report = method.report;
    rows.push_back({method.name, percent_text(report.iou_mean)});
    for (const Metric& iou : report.iou) rows.back().push_back(percent_text(iou));
    rows.back().push_back(percent_text(report.iou_mlperf));
    rows.back().push_back(percent_text(report.accuracy));
    if (!method.how.empty()) notes += fmt::format("\n  {}: {}", method.name, method.how);
  }
  return format_table(rows) + notes;
}

// The network beside the best method without one, class by class.
std::string SegmentationReporter::short_table(const Evaluator& evaluator) const {
  const std::vector<Method>& methods = of_segmentation(evaluator).methods();
  std::vector<const Method*> others;
  for (const Method& method : methods) {
    if (!method.name.starts_with("network")) others.push_back(&method);
  }
  std::vector<std::vector<std::string>> rows = {{"IoU %", "network"}};
  if (!others.empty()) rows.front().emplace_back("best without");
  const auto add = [&](const std::string& name, const auto& metric_of) {
    std::vector<std::string>& row =
        rows.emplace_back(std::vector{name, percent_text(metric_of(methods.front().report))});
    if (others.empty()) return;
    const Method& best = **std::ranges::max_element(
        others, {}, [&](const Method* method) { return metric_of(method->report).value.value_or(-1); });
    row.push_back(percent_text(metric_of(best.report)));
    row.push_back(best.name);
  };
  add("mean", [](const SegmentationReport& report) { return report.iou_mean; });
  for (std::size_t c = 0; c < kNames.size(); ++c) {
    add(kNames[c], [&](const SegmentationReport& report) { return report.iou[c]; });
  }
  return format_table(rows);
}

json SegmentationReporter::results(const Evaluator& evaluator) const {
  const SegmentationEvaluator& segmentation = of_segmentation(evaluator);
  const Method& network = segmentation.methods().front();
  json results = {{"frames", network.report.frames}, {"class_offsets", segmentation.offsets()}, {"how", network.how}};
  put_report(results, network.report);
  for (std::int64_t k = 0; k < kClasses; ++k) {
    for (std::int64_t p = 0; p < kClasses; ++p) {
      results["confusion"][std::string(climate::kTagNames[static_cast<std::size_t>(k)])]
             [std::string(climate::kTagNames[static_cast<std::size_t>(p)])] = network.report.sum.at(k, p);
    }
  }
  results["others"] = json::array();
  for (const Method& method : std::span(segmentation.methods()).subspan(1)) {
    json& other = results["others"].emplace_back(json{{"method", method.name}, {"how", method.how}});
    put_report(other, method.report);
  }
  return results;
}

json SegmentationReporter::curves(const Evaluator& evaluator) const {
  return pictures_json(of_segmentation(evaluator));
}

std::vector<KeyNumber> SegmentationReporter::key_numbers(const RunRecord& run) const {
  const json* results = evaluation_part(run, "results");
  if (results == nullptr) return {};
  std::vector<KeyNumber> numbers;
  const auto add = [&](const std::string& label, const std::string& key) {
    const Metric metric = metric_at(*results, key);
    if (!metric.value) return;
    std::string remark = evaluated_set(run);
    for (const json& other : results->value("others", json::array())) {
      const Metric of = metric_at(other, key);
      if (other.value("method", "") == "heuristics" && of.value) {
        remark = "heuristics " + readable(100 * *of.value, 3) + " %";
      }
    }
    numbers.push_back({label, readable(100 * *metric.value, 3) + " %", remark});
  };
  add("mean IoU", "iou_mean");
  add("IoU of cyclones", iou_key(1));
  add("IoU of rivers", iou_key(2));
  return numbers;
}

void SegmentationReporter::add_sections(Page& page, const std::vector<RunRecord>& runs) const {
  const std::vector<EvaluatedRun> evaluated = evaluated_runs(runs);
  if (evaluated.empty()) return;
  const bool several = runs.size() > 1;
  std::string html = evaluated_sets(evaluated, "frames", [](const json&) { return std::string(); });
  for (const EvaluatedRun& one : evaluated) html += methods_table(one, several) + confusion_table(one, several);
  page.section("Result", html);
  const json* curves = evaluated.front().curves();
  if (curves == nullptr || !curves->contains("frames")) return;
  const std::string maps = pictures_html(*curves, several ? html_escape(evaluated.front().run->name) : "the network");
  if (!maps.empty()) page.section("Maps", maps);
}

}  // namespace petaflow::climate_segmentation
