#include "cosmoflow/reporter.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "cosmoflow/evaluator.hpp"
#include "cosmoflow/universe.hpp"
#include "measure/rates.hpp"
#include "report/comparison.hpp"
#include "report/evaluated_runs.hpp"
#include "report/html.hpp"
#include "report/json_values.hpp"
#include "report/metric_json.hpp"
#include "report/plot.hpp"
#include "report/png.hpp"

namespace petaflow::cosmoflow {
namespace {

using nlohmann::json;

const CosmoflowEvaluator& of_cosmoflow(const Evaluator& evaluator) {
  return dynamic_cast<const CosmoflowEvaluator&>(evaluator);
}

/// The middle slice of the first sample in each of at most four channels.
json slices_json(const CosmoData& data) {
  const auto [channels, depth, height, width] = data.sample_dims();
  const SampleStorage cube(data);
  data.read(0, cube.bytes());
  const auto counts = cube.input<std::int16_t>();
  const std::int64_t shown = std::min(channels, std::ssize(kRedshifts));
  const std::int16_t* const middle = counts.data() + depth / 2 * height * width * channels;
  std::int16_t most = 1;
  for (std::int64_t i = 0; i < height * width * channels; ++i) {
    if (i % channels < shown) most = std::max(most, middle[i]);
  }
  json pictures = json::array();
  for (std::int64_t c = 0; c < shown; ++c) {
    std::vector<float> values;
    for (std::int64_t row = height; row-- > 0;) {  // the first one lowest
      for (std::int64_t column = 0; column < width; ++column) {
        const std::int16_t count = middle[(row * width + column) * channels + c];
        values.push_back(std::log1p(static_cast<float>(count)) / std::log1p(static_cast<float>(most)));
      }
    }
    pictures.push_back(png_uri(heat_png(values, height, width)));
  }
  return {{"file", data.files().front()}, {"most", most}, {"height", height}, {"width", width}, {"png", pictures}};
}

/// A run's true values and estimates of a parameter.
struct Cloud {
  std::size_t position;  // on the page
  std::string run, name, unit;
  double low, high;  // of the labels
  std::vector<double> truth, estimate;
};

/// Per parameter of any run.
std::vector<std::vector<Cloud>> clouds_of(const std::vector<EvaluatedRun>& runs) {
  std::vector<std::vector<Cloud>> parameters;
  for (const EvaluatedRun& evaluated : runs) {
    const json* curves = evaluated.curves();
    if (curves == nullptr) continue;
    for (const json& of : curves->at("parameters")) {
      const Cloud cloud{evaluated.position, evaluated.run->name, of.at("name"), of.value("unit", ""),
                        of.at("low"),       of.at("high"),       of.at("true"), of.at("estimate")};
      const auto same = std::ranges::find_if(
          parameters, [&](const std::vector<Cloud>& others) { return others.front().name == cloud.name; });
      if (same == parameters.end()) {
        parameters.push_back({cloud});
      } else {
        same->push_back(cloud);
      }
    }
  }
  return parameters;
}

/// "estimate of H_0  km/s/Mpc"
std::string axis_label(const std::string& what, const Cloud& cloud) {
  return what + cloud.name + (cloud.unit.empty() ? "" : "  " + cloud.unit);
}

std::string scatter(const std::vector<Cloud>& clouds, bool several) {
  const Cloud& first = clouds.front();
  double low = first.low, high = first.high;
  for (const Cloud& cloud : clouds) {
    for (const auto& values : {cloud.truth, cloud.estimate}) {
      for (const double value : values) low = std::min(low, value), high = std::max(high, value);
    }
  }
  const double air = 0.03 * (high - low);
  constexpr double kWidth = 440, kHeight = kWidth + 4;  // the axes make a square
  Plot plot({axis_label("true ", first), false, low - air, high + air},
            {axis_label("estimate of ", first), false, low - air, high + air}, kWidth, kHeight);
  for (const Cloud& cloud : clouds)
    plot.points(cloud.truth, cloud.estimate, tone(cloud.position), several ? cloud.run : "");
  const std::vector<double> ends = {first.low, first.high};
  plot.line(ends, ends, "ink", "", Stroke::kDashed);
  return figure(plot, fmt::format("<strong>{}</strong>: the network’s estimate against the truth, a dot per cube; "
                                  "dashed: where they are equal, over the range of the training.",
                                  html_escape(first.name)));
}

std::string residuals(const std::vector<Cloud>& clouds, bool several) {
  constexpr std::size_t kBins = 40;
  double widest = 1e-12;
  for (const Cloud& cloud : clouds) {
    for (std::size_t i = 0; i < cloud.truth.size(); ++i) {
      widest = std::max(widest, std::abs(cloud.estimate[i] - cloud.truth[i]));
    }
  }
  std::vector<double> edges;
  for (std::size_t i = 0; i <= kBins; ++i) {
    edges.push_back(widest * (2 * static_cast<double>(i) / static_cast<double>(kBins) - 1));
  }
  const Cloud& first = clouds.front();
  Plot plot({axis_label("estimate − true ", first)}, {"cubes per bin", false, 0.0}, 440, 240);
  for (const Cloud& cloud : clouds) {
    std::vector<double> heights(kBins, 0.0);
    for (std::size_t i = 0; i < cloud.truth.size(); ++i) {
      const double place = (cloud.estimate[i] - cloud.truth[i] + widest) / (2 * widest) * static_cast<double>(kBins);
      heights[std::min(kBins - 1, static_cast<std::size_t>(place))] += 1;
    }
    plot.histogram(edges, heights, tone(cloud.position), several ? cloud.run : "");
  }
  plot.rule_x(0, "");
  return figure(plot, fmt::format("<strong>{}</strong>: errors of the network’s estimates.", html_escape(first.name)));
}

/// Table of the network's and the classical methods' results in one run, a column per method.
std::string methods_table(const json& methods, const std::string& caption) {
  std::vector<std::string> names;
  for (const json& method : methods) names.push_back(html_escape(method.at("method").get<std::string>()));
  ComparisonRows rows(names);
  const auto add = [&](const std::string& what, const auto& text_of) {
    std::vector<std::string> cells;
    for (const json& method : methods) cells.push_back(text_of(method));
    rows.add(what, cells);
  };
  add("MAE of labels", [](const json& method) { return with_error(metric_at(method, "mae")); });
  for (std::size_t p = 0; p < methods.front().at("parameters").size(); ++p) {
    const json& parameter = methods.front().at("parameters").at(p);
    const std::string name = html_escape(parameter.at("name").get<std::string>());
    const std::string unit = html_escape(parameter.value("unit", ""));
    const auto of = [p](const char* key, double scale, const char* after) {
      return [=](const json& method) {
        const std::string text = with_error(metric_at(method.at("parameters").at(p), key), scale);
        return text.empty() ? text : text + after;
      };
    };
    add(name + ": mean relative error", of("mean_relative_error", 100, " %"));
    add(name + ": error of the network / of this", of("ratio", 1, ""));
    add(name + ": root mean square error" + (unit.empty() ? "" : ", " + unit), of("rmse", 1, ""));
    add(name + ": R²", of("r2", 1, ""));
  }
  return table(rows.rows(), caption, "full");
}

std::string tables(const EvaluatedRun& evaluated, bool several) {
  const json& results = evaluated.results();
  const std::string of = several ? " of " + html_escape(evaluated.run->name) : "";
  const std::string errors = "with bootstrap errors over universes";
  std::string html = methods_table(results.at("single"), fmt::format("Results{}, cube by cube, {}.", of, errors));
  if (results.contains("group_means")) {
    html += methods_table(results.at("group_means"),
                          fmt::format("Results{} for means over the cubes of each universe, {}.", of, errors));
  }
  return html;
}

std::string slices_figure(const json& slices) {
  const double height = slices.at("height"), width = slices.at("width");
  std::vector<Panel> pictures;
  for (std::size_t c = 0; c < slices.at("png").size(); ++c) {
    constexpr double kWidth = 240, kInner = kWidth - 62;
    Plot plot({"voxel"}, {"voxel"}, kWidth, kInner * height / width + 66);
    plot.image(slices.at("png").at(c), 0, width, 0, height);
    pictures.push_back({fmt::format("redshift {}", kRedshifts.at(c)), plot});
  }
  return panels(pictures, "0", readable(slices.at("most")) + " particles per voxel",
                fmt::format("The middle slice of <code>{}</code>; colours go with log(1 + count).",
                            html_escape(slices.at("file").get<std::string>())));
}

}  // namespace

std::string CosmoflowReporter::table(const Evaluator& evaluator) const {
  return regression_table(of_cosmoflow(evaluator).report());
}

// Sample by sample: the network beside the best of the others, parameter by parameter.
std::string CosmoflowReporter::short_table(const Evaluator& evaluator) const {
  const RegressionReport& report = of_cosmoflow(evaluator).report();
  const std::vector<MethodScores>& methods = report.single;
  const bool others = methods.size() > 1;
  std::vector<std::vector<std::string>> rows = {{"mean error", "network"}};
  if (others) rows.front().emplace_back("best without");
  const auto add = [&](const std::string& name, double scale, int digits, const char* unit, const auto& metric_of) {
    const auto text = [&](Metric metric, bool with_error) {
      if (!metric.value) return std::string("none");
      *metric.value *= scale;
      if (metric.error) *metric.error *= scale;
      if (!with_error) metric.error.reset();
      return to_string(metric, digits) + unit;
    };
    std::vector<std::string>& row = rows.emplace_back(std::vector{name, text(metric_of(methods.front()), true)});
    if (!others) return;
    const auto best = std::ranges::min_element(methods.begin() + 1, methods.end(), {}, [&](const MethodScores& method) {
      return metric_of(method).value.value_or(INFINITY);
    });
    row.push_back(text(metric_of(*best), false));
    row.push_back(best->method);
  };
  for (std::size_t t = 0; t < report.parameters.size(); ++t) {
    add(report.parameters[t].name, 100, 2, " %",
        [&](const MethodScores& method) { return method.parameters[t].mean_relative_error; });
  }
  add("labels (MAE)", 1, 4, "", [](const MethodScores& method) { return method.mae; });
  return format_table(rows);
}

json CosmoflowReporter::results(const Evaluator& evaluator) const { return of_cosmoflow(evaluator).report(); }

json CosmoflowReporter::curves(const Evaluator& evaluator) const {
  const CosmoData& data = of_cosmoflow(evaluator).data();
  const RegressionSet& set = of_cosmoflow(evaluator).set();
  const std::vector<EstimatedParameter>& parameters = set.parameters;
  constexpr std::int64_t kShown = 1200;
  constexpr int kDigits = 5;
  const std::int64_t step = std::max<std::int64_t>(1, (data.size() + kShown - 1) / kShown);
  json curves = {{"parameters", json::array()}, {"slices", slices_json(data)}};
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const EstimatedParameter& parameter = parameters[p];
    json of = {{"name", parameter.name},        {"unit", parameter.unit}, {"low", parameter.physical(-1)},
               {"high", parameter.physical(1)}, {"true", json::array()},  {"estimate", json::array()}};
    const auto physical = [&](float label) { return rounded(parameter.physical(static_cast<double>(label)), kDigits); };
    for (std::int64_t i = 0; i < data.size(); i += step) {
      const std::size_t at = static_cast<std::size_t>(i) * parameters.size() + p;
      of["true"].push_back(physical(set.target[at]));
      of["estimate"].push_back(physical(set.methods.front().values[at]));
    }
    curves["parameters"].push_back(of);
  }
  return curves;
}

std::vector<KeyNumber> CosmoflowReporter::key_numbers(const RunRecord& run) const {
  const json* results = evaluation_part(run, "results");
  if (results == nullptr) return {};
  std::vector<KeyNumber> numbers;
  const auto add = [&](const std::string& label, const Metric& metric, double scale, const char* unit,
                       const std::string& remark) {
    if (!metric.value) return;
    const std::string error = metric.error ? "± " + readable(scale * *metric.error, 2) + ", " : "";
    numbers.push_back({label, readable(scale * *metric.value, 3) + unit, error + remark});
  };
  const json& methods = results->at("single");
  add("MAE of labels", metric_at(methods.front(), "mae"), 1, "", evaluated_set(run));
  for (std::size_t p = 0; p < methods.front().at("parameters").size(); ++p) {
    const auto error_of = [&](const json& method) {
      return metric_at(method.at("parameters").at(p), "mean_relative_error");
    };
    std::string remark = evaluated_set(run);
    if (methods.size() > 1) {
      remark = "ridge " + readable(100 * error_of(methods.at(1)).value.value_or(NAN), 3) + " %";
    }
    add("error of " + methods.front().at("parameters").at(p).at("name").get<std::string>(), error_of(methods.front()),
        100, " %", remark);
  }
  return numbers;
}

void CosmoflowReporter::add_sections(Page& page, const std::vector<RunRecord>& runs) const {
  const std::vector<EvaluatedRun> evaluated = evaluated_runs(runs);
  if (evaluated.empty()) return;
  const bool several = runs.size() > 1;
  std::string html = evaluated_sets(evaluated, "cubes", [](const json& results) {
    return fmt::format(", cut from {} universes", grouped(results.value("groups", 0.0)));
  });
  std::vector<std::string> figures, errors;
  for (const std::vector<Cloud>& clouds : clouds_of(evaluated)) {
    figures.push_back(scatter(clouds, several));
    errors.push_back(residuals(clouds, several));
  }
  figures.insert(figures.end(), errors.begin(), errors.end());
  html += side_by_side(figures);
  for (const EvaluatedRun& one : evaluated) html += tables(one, several);
  page.section("Result", html);
  const json* curves = evaluated.front().curves();
  if (curves != nullptr && curves->contains("slices")) page.section("Data", slices_figure(curves->at("slices")));
}

}  // namespace petaflow::cosmoflow
