#include "hep/reporter.hpp"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "hep/curves.hpp"
#include "metrics/calibration.hpp"
#include "report/comparison.hpp"
#include "report/evaluated_runs.hpp"
#include "report/html.hpp"
#include "report/json_values.hpp"
#include "report/metric_json.hpp"

namespace petaflow::hep {
namespace {

using nlohmann::json;

const HepEvaluator& of_hep(const Evaluator& evaluator) { return dynamic_cast<const HepEvaluator&>(evaluator); }

std::string metric_text(const Metric& metric, int digits = 4) { return to_string(metric, digits); }

/// The reason why there is none is long, and stands in the report.
std::string short_text(const Metric& efficiency) {
  return efficiency.value ? metric_text(efficiency) : "too few events to say";
}

std::string rate_text(double rate) { return fmt::format("{:.3g} %", 100 * rate); }

/// The report as lines for people.
std::string evaluation_table(const ClassificationReport& report) {
  std::string table =
      fmt::format("  {} signal and {} background events\n  accuracy {}\n  AUC      {}", report.signal_events,
                  report.background_events, metric_text(report.accuracy), metric_text(report.auc));
  for (const EfficiencyAtRate& at : report.at_rates) {
    table += fmt::format("\n  signal efficiency at a background rate of {}: {}", rate_text(at.background_rate),
                         short_text(at.signal_efficiency));
  }
  if (report.selection) {
    const SelectionComparison& cuts = *report.selection;
    table += fmt::format("\n  cut selection: background rate {},\n    signal efficiency {}",
                         metric_text(cuts.background_rate, 5), short_text(cuts.signal_efficiency));
    table += fmt::format("\n  network at the same background rate:\n    signal efficiency {}",
                         short_text(cuts.score_efficiency));
    if (cuts.difference.value) table += fmt::format(" (difference {})", metric_text(cuts.difference));
  }
  return table;
}

/// How many events are taken for the other class at even odds; the report has the whole matrix.
std::string confusion_line(const ScoredSet& set) {
  if (set.score.empty()) return "";
  const ConfusionMatrix matrix = confusion_matrix(set, 0);
  return fmt::format("\n  taken for the other class: {:.6g} signal, {:.6g} background", matrix[1][0], matrix[0][1]);
}

std::string percent(double rate) { return readable(100 * rate, 2) + " %"; }

using Evaluated = std::vector<EvaluatedRun>;

std::string roc_figure(const Evaluated& runs, std::size_t on_page) {
  Plot plot({"signal efficiency", false, 0.0, 1.0}, {"background rejection  1 / background rate", true, 1.0});
  const json* cuts = nullptr;
  for (const EvaluatedRun& evaluated : runs) {
    const json* curves = evaluated.curves();
    if (curves == nullptr || !curves->contains("roc")) continue;
    std::vector<double> x = curves->at("roc").at("signal"), y;
    for (const double rate : curves->at("roc").at("background")) y.push_back(rate > 0 ? 1 / rate : NAN);
    plot.line(x, y, tone(evaluated.position), on_page > 1 ? evaluated.run->name : "network");
    const json& results = evaluated.results();
    if (cuts == nullptr && results.contains("selection")) cuts = &results.at("selection");
  }
  if (plot.legend().empty()) return "";  // one class alone has no curve
  std::string caption =
      "Background rejection against signal efficiency; a better classifier lies further to the upper right.";
  const double rate = cuts == nullptr ? 0 : number_at(*cuts, "background_rate");
  if (rate > 0) {
    plot.star(number_at(*cuts, "signal_efficiency"), 1 / rate, "ink", "cut selection");
    plot.rule_y(1 / rate, "");
    caption +=
        " Star: the cut selection of the search; the dotted line is its background rate of " + percent(rate) + ".";
  }
  return figure(plot, caption);
}

std::string score_figure(std::size_t on_page, const RunRecord& run) {
  const json* curves = evaluation_part(run, "curves");
  if (curves == nullptr || !curves->contains("scores")) return "";
  const json& scores = curves->at("scores");
  const double low = scores.at("low"), high = scores.at("high");
  Plot plot({"log-odds of signal  ln p / (1 − p)", false, low, high}, {"share of events per bin", true});
  for (const char* name : {"background", "signal"}) {
    const std::vector<double> heights = scores[name];
    std::vector<double> edges;
    for (std::size_t i = 0; i <= heights.size(); ++i) {
      edges.push_back(low + (high - low) * static_cast<double>(i) / static_cast<double>(heights.size()));
    }
    plot.histogram(edges, heights, name, name);
  }
  if (curves->contains("threshold")) {
    plot.rule_x(curves->at("threshold"), "cuts’ background rate");
  }
  return figure(plot,
                fmt::format("Network output for signal and background{}. Events beyond the ends are in the first and "
                            "the last bin.",
                            on_page > 1 ? " of " + html_escape(run.name) : ""));
}

std::string calibration_figure(const Evaluated& runs, std::size_t on_page) {
  Plot plot({"predicted probability of signal", false, 0.0, 1.0}, {"share of signal", false, 0.0, 1.0});
  for (const EvaluatedRun& evaluated : runs) {
    const json* curves = evaluated.curves();
    if (curves == nullptr || !curves->contains("calibration")) continue;
    const std::vector<double> x = curves->at("calibration").at("probability"),
                              y = curves->at("calibration").at("signal_share");
    plot.line(x, y, tone(evaluated.position), on_page > 1 ? evaluated.run->name : "network");
  }
  if (plot.legend().empty()) return "";  // of an older version
  const std::vector<double> ends = {0, 1};
  plot.line(ends, ends, "ink", "calibrated", Stroke::kDashed);
  return figure(plot,
                "Calibration: of the events that the network gives a probability, the share that is signal; on the "
                "dashed line they are equal.");
}

std::string result_table(const Evaluated& runs, std::size_t on_page) {
  std::vector<std::string> names;
  for (const EvaluatedRun& evaluated : runs) names.push_back(on_page > 1 ? html_escape(evaluated.run->name) : "value");
  ComparisonRows rows(names);
  const auto add = [&](const std::string& what, const auto& value_of) {
    std::vector<std::string> cells;
    for (const EvaluatedRun& evaluated : runs) cells.push_back(value_of(evaluated.results()));
    rows.add(what, cells);
  };
  add("area under the ROC curve", [](const json& j) { return with_error(metric_at(j, "auc")); });
  add("accuracy", [](const json& j) { return with_error(metric_at(j, "accuracy")); });
  add("calibration error", [](const json& j) {
    return j.contains("calibration_error") ? readable(number_at(j, "calibration_error"), 3) : std::string();
  });
  for (const char* kind : kClasses) {
    add(fmt::format("{} called signal, background", kind), [=](const json& j) {
      if (!j.contains("confusion")) return std::string();
      const json& row = j.at("confusion").at(kind);
      return grouped(number_at(row, "signal")) + ", " + grouped(number_at(row, "background"));
    });
  }
  const json& first = runs.front().results();
  for (std::size_t i = 0; i < first.value("at_background_rate", json::array()).size(); ++i) {
    const double rate = first.at("at_background_rate").at(i).value("background_rate", 0.0);
    add("signal efficiency at a background rate of " + percent(rate), [&](const json& j) {
      for (const json& at : j.value("at_background_rate", json::array())) {
        if (at.value("background_rate", 0.0) == rate) return with_error(metric_at(at, "signal_efficiency"));
      }
      return std::string();
    });
  }
  const auto cuts = [](const char* key) {
    return [=](const json& j) {
      return j.contains("selection") ? with_error(metric_at(j.at("selection"), key)) : std::string();
    };
  };
  add("cut selection: background rate", cuts("background_rate"));
  add("cut selection: signal efficiency", cuts("signal_efficiency"));
  add("network at that rate: signal efficiency", cuts("score_signal_efficiency"));
  add("gain in signal efficiency", cuts("difference"));
  return table(rows.rows(),
               "Results with bootstrap errors. Rates that too few background events support are left out.");
}

/// "p = 0.98" of log-odds; close to 1 the distance from it.
std::string probability(double log_odds) {
  const double p = 1 / (1 + std::exp(-log_odds)), rest = 1 / (1 + std::exp(log_odds));
  return rest < 0.01 ? "p = 1 − " + readable(rest, 2) : "p = " + readable(p, 2);
}

std::string events_figure(const RunRecord& run, std::size_t on_page) {
  const json* curves = evaluation_part(run, "curves");
  if (curves == nullptr || !curves->contains("events") || !curves->at("events").is_object()) return "";
  const json& events = curves->at("events");
  const bool known = events.value("format", "") == "all_events" && events.value("whole", false);
  const bool in_mev = events.value("format", "") != "sc17";
  std::vector<Panel> pictures;
  for (const json& event : events.at("list")) {
    const double phi = known ? std::numbers::pi : event.value("width", 1.0);
    const double eta = known ? 2.5 : event.value("height", 1.0);
    const double phi_low = known ? -phi : 0, eta_low = known ? -eta : 0;
    constexpr double kWidth = 320, kInner = kWidth - 62;
    Plot plot({known ? "φ" : "φ bin"}, {known ? "η" : "η bin"}, kWidth,
              kInner * (eta - eta_low) / (phi - phi_low) + 66);
    plot.image(event.at("png"), phi_low, phi, eta_low, eta);
    pictures.push_back(
        {fmt::format("{}: {}", event.at("what").get<std::string>(), probability(event.at("log_odds"))), plot});
  }
  const double low = events.at("low"), high = events.at("high"), unit = in_mev ? 1e-3 : 1;
  return panels(pictures, "≤ " + readable(unit * low, 2), readable(unit * high, 2) + (in_mev ? " GeV" : ""),
                fmt::format("Events of the {} as {} sees them: the first channel, logarithmic colours; p is its "
                            "probability of signal. Of each class: one from its middle, one of its uncertain tenth, "
                            "and the worst mistake.",
                            evaluated_set(run), on_page > 1 ? html_escape(run.name) : "the network"));
}

}  // namespace

std::string HepReporter::table(const Evaluator& evaluator) const {
  return evaluation_table(of_hep(evaluator).report()) + confusion_line(of_hep(evaluator).scores());
}

json HepReporter::results(const Evaluator& evaluator) const {
  json results = of_hep(evaluator).report();
  const ScoredSet& set = of_hep(evaluator).scores();
  if (set.score.empty()) return results;
  const ConfusionMatrix matrix = confusion_matrix(set, 0);
  for (std::size_t kind = 0; kind < 2; ++kind) {
    results["confusion"][kClasses[kind]] = {{kClasses[0], matrix[kind][0]}, {kClasses[1], matrix[kind][1]}};
  }
  results["calibration_error"] = calibration(set).error;
  return results;
}

json HepReporter::curves(const Evaluator& evaluator) const { return curves_of(of_hep(evaluator)); }

std::vector<KeyNumber> HepReporter::key_numbers(const RunRecord& run) const {
  const json* results = evaluation_part(run, "results");
  if (results == nullptr) return {};
  std::vector<KeyNumber> numbers;
  if (const Metric auc = metric_at(*results, "auc"); auc.value) {
    const std::string error = auc.error ? "± " + grouped(*auc.error, 4) + ", " : "";
    numbers.push_back({"area under ROC", grouped(*auc.value, 4), error + evaluated_set(run)});
  }
  if (results->contains("selection")) {
    const json& cuts = results->at("selection");
    if (cuts.contains("score_signal_efficiency") && cuts.at("score_signal_efficiency").is_number()) {
      numbers.push_back(
          {"signal efficiency", percent(cuts.at("score_signal_efficiency")),
           fmt::format("cuts: {} at the same background", percent(number_at(cuts, "signal_efficiency")))});
    }
  }
  return numbers;
}

void HepReporter::add_sections(Page& page, const std::vector<RunRecord>& runs) const {
  const Evaluated evaluated = evaluated_runs(runs);
  if (evaluated.empty()) return;
  const std::string about = evaluated_sets(evaluated, "events", [](const json& results) {
    return fmt::format(", {} of them signal", grouped(results.value("signal_events", 0.0)));
  });
  std::vector<std::string> figures = {roc_figure(evaluated, runs.size())};
  for (const EvaluatedRun& one : evaluated) figures.push_back(score_figure(runs.size(), *one.run));
  figures.push_back(calibration_figure(evaluated, runs.size()));
  page.section("Result", about + side_by_side(figures) + result_table(evaluated, runs.size()));
  const std::string pictures = events_figure(*evaluated.front().run, runs.size());
  if (!pictures.empty()) page.section("Events", pictures);
}

}  // namespace petaflow::hep
