#include "cosmoflow/cosmoflow_report.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "report/html.hpp"
#include "report/plot.hpp"
#include "report/png.hpp"

namespace petaflow::cosmoflow {
namespace {

using nlohmann::json;

/// A part of a run's evaluation; null: it has none.
const json* part_of(const RunRecord& run, const char* key) {
  if (!run.evaluation.is_object() || !run.evaluation.contains(key)) return nullptr;
  const json& part = run.evaluation.at(key);
  return part.is_object() && !part.empty() ? &part : nullptr;
}

std::string tone(std::size_t run) { return fmt::format("s{}", run + 1); }

/// "1.23 ± 0.04 %" of a metric that is a fraction; "1.23 ± 0.04" of another.
std::string number(const json& object, const std::string& name, double scale = 1, const char* unit = "") {
  const json value = object.value(name, json()), error = object.value(name + "_error", json());
  if (!value.is_number()) return "–";
  std::string text = readable(scale * value.get<double>(), 3);
  if (error.is_number()) text += " ± " + readable(scale * error.get<double>(), 2);
  return text + unit;
}

/// The middle slice of the first sample: log(1 + count) of its first channel.
std::string slice_uri(const CosmoData& data) {
  const auto [channels, edge, height, width] = data.sample_dims();
  std::vector<std::int16_t> counts(static_cast<std::size_t>(data.sample_elements()));
  std::vector<float> targets(static_cast<std::size_t>(data.targets()));
  data.read(0, std::as_writable_bytes(std::span(counts)), targets);
  std::vector<float> values;
  for (std::int64_t i = 0; i < height * width; ++i) {
    const std::int64_t pixel = edge / 2 * height * width + i;
    values.push_back(std::log1p(static_cast<float>(counts[static_cast<std::size_t>(pixel * channels)])));
  }
  const float highest = std::max(1e-6F, *std::ranges::max_element(values));
  for (float& value : values) value /= highest;
  return png_uri(heat_png(values, height, width));
}

std::string scatter(const std::vector<RunRecord>& runs, std::size_t parameter) {
  Plot plot({"true value"}, {"estimate"}, 360, 320);
  std::string name;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const json* curves = part_of(runs[r], "curves");
    if (curves == nullptr || parameter >= curves->at("parameters").size()) continue;
    const json& of = curves->at("parameters").at(parameter);
    name = of.at("name");
    const auto truth = of.at("true").get<std::vector<double>>(),
               estimate = of.at("estimate").get<std::vector<double>>();
    plot.points(truth, estimate, tone(r), runs.size() > 1 ? runs[r].name : "");
    const std::vector<double> ends = {of.at("low"), of.at("high")};
    if (r == 0) plot.line(ends, ends, "ink", "", Stroke::kDashed);
  }
  return figure(plot, fmt::format("<strong>{}</strong>: estimate against truth, one dot per cube; dashed: equal.",
                                  html_escape(name)));
}

std::string residuals(const std::vector<RunRecord>& runs, std::size_t parameter) {
  constexpr std::size_t kBins = 40;
  Plot plot({"estimate − true"}, {"cubes"}, 360, 240);
  std::string name;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const json* curves = part_of(runs[r], "curves");
    if (curves == nullptr || parameter >= curves->at("parameters").size()) continue;
    const json& of = curves->at("parameters").at(parameter);
    name = of.at("name");
    const auto truth = of.at("true").get<std::vector<double>>(),
               estimate = of.at("estimate").get<std::vector<double>>();
    double widest = 1e-12;
    for (std::size_t i = 0; i < truth.size(); ++i) widest = std::max(widest, std::abs(estimate[i] - truth[i]));
    std::vector<double> edges, heights(kBins, 0.0);
    for (std::size_t i = 0; i <= kBins; ++i) {
      edges.push_back(widest * (2.0 * static_cast<double>(i) / static_cast<double>(kBins) - 1));
    }
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const double place = (estimate[i] - truth[i] + widest) / (2 * widest) * static_cast<double>(kBins);
      heights[std::min(kBins - 1, static_cast<std::size_t>(place))] += 1;
    }
    plot.histogram(edges, heights, tone(r), runs.size() > 1 ? runs[r].name : "");
  }
  return figure(plot, fmt::format("<strong>{}</strong>: errors of the estimates.", html_escape(name)));
}

/// Mean relative errors of the network and the classical methods of one run.
std::string errors_table(const RunRecord& run, const json& judgement, bool several) {
  std::vector<std::vector<std::string>> rows = {{"method", "MAE of labels"}};
  for (const json& of : judgement.at("single").front().at("parameters")) {
    rows.front().push_back(html_escape(of.at("name").get<std::string>()));
  }
  for (const json& method : judgement.at("single")) {
    std::vector<std::string> row = {html_escape(method.at("method").get<std::string>()), number(method, "mae")};
    for (const json& of : method.at("parameters")) row.push_back(number(of, "mean_relative_error", 100, " %"));
    rows.push_back(row);
  }
  return table(rows, fmt::format("Mean relative errors{} of {} cubes from {} universes, with bootstrap errors over "
                                 "universes.",
                                 several ? " of " + html_escape(run.name) : "",
                                 grouped(judgement.value("samples", 0.0)), grouped(judgement.value("groups", 0.0))));
}

}  // namespace

json report_curves(const std::vector<EstimatedParameter>& parameters, const CosmoData& data,
                   const Predictions& predictions) {
  constexpr std::int64_t kShown = 1200;
  const std::int64_t step = std::max<std::int64_t>(1, (predictions.count + kShown - 1) / kShown);
  json curves = {{"parameters", json::array()}, {"slice", slice_uri(data)}, {"slice_of", data.files().front()}};
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const EstimatedParameter& parameter = parameters[p];
    json of = {{"name", parameter.name},
               {"low", parameter.mean - parameter.half_range},
               {"high", parameter.mean + parameter.half_range},
               {"true", json::array()},
               {"estimate", json::array()}};
    const auto physical = [&](float value) {
      return parameter.mean + parameter.half_range * static_cast<double>(value);
    };
    for (std::int64_t i = 0; i < predictions.count; i += step) {
      const std::size_t at = static_cast<std::size_t>(i) * parameters.size() + p;
      of["true"].push_back(physical(predictions.targets[at]));
      of["estimate"].push_back(physical(predictions.outputs[at]));
    }
    curves["parameters"].push_back(of);
  }
  return curves;
}

std::vector<KeyNumber> report_key_numbers(const RunRecord& run) {
  const json* judgement = part_of(run, "judgement");
  if (judgement == nullptr) return {};
  std::vector<KeyNumber> numbers;
  const json& network = judgement->at("single").front();
  numbers.push_back({"MAE of labels", number(network, "mae"),
                     run.evaluation.value("set", "") == "data.test" ? "test set" : "validation set"});
  for (std::size_t p = 0; p < network.at("parameters").size(); ++p) {
    const json& methods = judgement->at("single");
    const std::string beside =
        methods.size() > 1 ? "ridge: " + number(methods.at(1).at("parameters").at(p), "mean_relative_error", 100, " %")
                           : "mean relative error";
    numbers.push_back({network.at("parameters").at(p).at("name").get<std::string>(),
                       number(network.at("parameters").at(p), "mean_relative_error", 100, " %"), beside});
  }
  return numbers;
}

void add_report_sections(Page& page, const std::vector<RunRecord>& runs) {
  std::size_t parameters = 0;
  std::string tables;
  const json* shown = nullptr;  // curves of the first run that has some
  for (const RunRecord& run : runs) {
    const json *judgement = part_of(run, "judgement"), *curves = part_of(run, "curves");
    if (judgement == nullptr || curves == nullptr) continue;
    if (shown == nullptr) shown = curves;
    parameters = std::max(parameters, curves->at("parameters").size());
    tables += errors_table(run, *judgement, runs.size() > 1);
  }
  if (shown == nullptr) return;
  std::vector<std::string> figures;
  for (std::size_t p = 0; p < parameters; ++p) figures.push_back(scatter(runs, p));
  for (std::size_t p = 0; p < parameters; ++p) figures.push_back(residuals(runs, p));
  page.section("Result", side_by_side(figures) + tables);
  Plot slice({"voxel"}, {"voxel"}, 360, 360);
  slice.image(shown->at("slice"), 0, 1, 0, 1);
  page.section("Data",
               figure(slice, fmt::format("The middle slice of <code>{}</code>: log(1 + count) of the first channel.",
                                         html_escape(shown->at("slice_of").get<std::string>()))));
}

}  // namespace petaflow::cosmoflow
