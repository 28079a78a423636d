#include "report/training_figures.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include <fmt/ranges.h>

#include "report/comparison.hpp"
#include "report/html.hpp"
#include "report/page.hpp"
#include "report/plot.hpp"

namespace petaflow {
namespace {

struct Curve {
  std::vector<double> x, y;
};

/// Means over a fiftieth of the points to each side, fewer at the ends; at no more points than a plot can show, so that
/// the work grows with the number of points only.
Curve smoothed(const std::vector<double>& x, const std::vector<double>& y) {
  constexpr std::size_t kShown = 1000;
  const std::size_t reach = std::max<std::size_t>(2, y.size() / 50), stride = y.size() / kShown + 1;
  Curve result;
  for (std::size_t i = 0; i < y.size(); i += stride) {
    const std::size_t begin = i > reach ? i - reach : 0, end = std::min(y.size(), i + reach + 1);
    double sum = 0;
    for (std::size_t j = begin; j < end; ++j) sum += y[j];
    result.x.push_back(x[i]);
    result.y.push_back(sum / static_cast<double>(end - begin));
  }
  return result;
}

std::vector<double> column(const RunRecord& run, double TrainingPoint::* field) {
  std::vector<double> values;
  for (const TrainingPoint& point : run.training) values.push_back(point.*field);
  return values;
}

std::vector<double> steps_of(const RunRecord& run) {
  std::vector<double> steps;
  for (const TrainingPoint& point : run.training) steps.push_back(static_cast<double>(point.step));
  return steps;
}

/// The values of all runs, one after the other.
std::vector<double> columns(const std::vector<RunRecord>& runs, double TrainingPoint::* field) {
  std::vector<double> values;
  for (const RunRecord& run : runs) std::ranges::copy(column(run, field), std::back_inserter(values));
  return values;
}

std::vector<double> validations(const std::vector<RunRecord>& runs, const std::string& metric) {
  std::vector<double> values;
  for (const RunRecord& run : runs) {
    for (const ValidationPoint& point : run.validation) {
      if (const auto found = point.metrics.find(metric); found != point.metrics.end()) values.push_back(found->second);
    }
  }
  return values;
}

/// Whether an axis is better logarithmic: the highest value by the lowest one above zero is more than `ratio`.
bool spans(const std::vector<double>& values, double ratio) {
  double low = INFINITY, high = 0;
  for (const double value : values) {
    if (value > 0) low = std::min(low, value);
    if (std::isfinite(value)) high = std::max(high, value);
  }
  return high > ratio * low;
}

std::string loss_figure(const std::vector<RunRecord>& runs) {
  std::vector<double> all_losses = columns(runs, &TrainingPoint::loss);
  std::ranges::copy(validations(runs, "loss"), std::back_inserter(all_losses));
  Plot plot({"step", false, 0.0}, {"loss", spans(all_losses, 8)});
  bool validated = false;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const RunRecord& run = runs[r];
    const std::vector<double> steps = steps_of(run), losses = column(run, &TrainingPoint::loss);
    const bool one = runs.size() == 1;
    plot.line(steps, losses, tone(r), "", Stroke::kFaint);
    const Curve mean = smoothed(steps, losses);
    plot.line(mean.x, mean.y, tone(r), one ? "training" : run.name);
    std::vector<double> x, y;
    std::vector<std::string> tips;
    for (const ValidationPoint& point : run.validation) {
      if (!point.metrics.contains("loss")) continue;
      x.push_back(static_cast<double>(point.step));
      y.push_back(point.metrics.at("loss"));
      tips.push_back(fmt::format("epoch {}: {}", point.epoch, readable(y.back())));
    }
    const std::string other = one ? "s2" : tone(r);
    if (!x.empty()) {
      plot.line(x, y, other, "", Stroke::kDashed);
      plot.points(x, y, other, one ? "validation" : "", tips);
      validated = true;
    }
  }
  return figure(plot,
                fmt::format("Loss per sample. Faint: means between two lines of the log; bold: their running mean.{}",
                            validated ? " Dots: the validation set." : ""));
}

std::string metric_figure(const std::vector<RunRecord>& runs, const std::vector<std::string>& metrics) {
  std::vector<double> values;
  for (const std::string& metric : metrics) std::ranges::copy(validations(runs, metric), std::back_inserter(values));
  Plot plot({"epoch", false, {}, {}, true}, {metrics.size() == 1 ? metrics[0] : "", spans(values, 8)});
  for (std::size_t r = 0; r < runs.size(); ++r) {
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      std::vector<double> x, y;
      std::vector<std::string> tips;
      for (const ValidationPoint& point : runs[r].validation) {
        if (!point.metrics.contains(metrics[m])) continue;
        x.push_back(static_cast<double>(point.epoch));
        y.push_back(point.metrics.at(metrics[m]));
        tips.push_back(fmt::format("epoch {}: {}", point.epoch, readable(y.back(), 5)));
      }
      if (x.empty()) continue;
      const std::string of = runs.size() > 1 ? tone(r) : tone(m);
      const std::string label = runs.size() > 1 ? runs[r].name : metrics[m];
      plot.line(x, y, of, label);
      plot.points(x, y, of, "", tips);
    }
  }
  return figure(plot, fmt::format("Validation set after each epoch: {}.",
                                  html_escape(fmt::format("{}", fmt::join(metrics, ", ")))));
}

std::string simple_figure(const std::vector<RunRecord>& runs, double TrainingPoint::* field, const Axis& y,
                          const std::string& caption) {
  Plot plot({"step", false, 0.0}, y);
  bool any = false;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::vector<double> values = column(runs[r], field);
    any |= std::ranges::any_of(values, [](double value) { return std::isfinite(value); });
    plot.line(steps_of(runs[r]), values, tone(r), runs.size() > 1 ? runs[r].name : "");
  }
  return any ? figure(plot, caption) : "";
}

}  // namespace

std::string training_section(const std::vector<RunRecord>& runs) {
  if (std::ranges::all_of(runs, [](const RunRecord& run) { return run.training.empty(); })) {
    return "<p>No step has been logged yet.</p>\n";
  }
  std::vector<std::string> figures = {loss_figure(runs)};
  std::set<std::string> names;
  for (const RunRecord& run : runs) {
    for (const ValidationPoint& point : run.validation) {
      for (const auto& [name, value] : point.metrics) names.insert(name);
    }
  }
  names.erase("loss");
  const std::vector<std::string> metrics(names.begin(), names.end());
  if (runs.size() == 1 && !metrics.empty()) {
    figures.push_back(metric_figure(runs, metrics));
  } else {
    for (const std::string& metric : metrics) figures.push_back(metric_figure(runs, {metric}));
  }
  figures.push_back(simple_figure(runs, &TrainingPoint::lr, {"learning rate", false, 0.0}, "Learning rate."));
  Axis rate{"samples / s"};
  rate.log = runs.size() > 1 && spans(columns(runs, &TrainingPoint::samples_per_s), 20);
  if (!rate.log) rate.low = 0;
  figures.push_back(simple_figure(runs, &TrainingPoint::samples_per_s, rate,
                                  "Throughput over all ranks, between two lines of the log."));
  figures.push_back(simple_figure(runs, &TrainingPoint::noise_scale, {"samples", true},
                                  "Gradient-noise scale: variance of the gradient of a sample by the square of its "
                                  "mean, a moving average."));
  return side_by_side(figures);
}

std::string tuning_table(const RunRecord& run) {
  if (run.tuning.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"epoch", "groups", "momentum", "learning rate", "loss"}};
  for (const TuningPoint& trial : run.tuning) {
    const std::string loss = std::isfinite(trial.loss) ? readable(trial.loss, 4) : "failed";
    rows.push_back({std::to_string(trial.epoch), std::to_string(trial.groups), readable(trial.momentum, 2),
                    readable(trial.lr, 3), trial.chosen ? "<b>" + loss + "</b>" : loss});
  }
  return table(rows,
               "Trials of update.tune_groups, all of a search from the same weights: loss per sample in the second "
               "half of each. Bold: what the run went on with.",
               "full");
}

}  // namespace petaflow
