#include "program/run_report.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/build_info.hpp"
#include "config/document.hpp"
#include "io/atomic_file.hpp"
#include "io/progress.hpp"
#include "report/comparison.hpp"
#include "report/html.hpp"
#include "report/json_values.hpp"
#include "report/page.hpp"
#include "report/performance_tables.hpp"
#include "run/files.hpp"
#include "run/record.hpp"

namespace petaflow {
namespace {

using Row = std::vector<std::string>;
using Runs = std::vector<RunRecord>;

std::string plural(std::int64_t count, const std::string& word) {
  return fmt::format("{} {}{}", grouped(static_cast<double>(count)), word, count == 1 ? "" : "s");
}

/// A value of a JSON object as text; empty where it is not there.
std::string text_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return "";
  const nlohmann::json& value = object[key];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::int64_t last_step(const RunRecord& run) { return run.training.empty() ? 0 : run.training.back().step; }

std::string state_of(const RunRecord& run) {
  if (!run.finished())
    return fmt::format("not finished: last line at step {}", grouped(static_cast<double>(last_step(run))));
  const std::string end = text_at(run.performance, "end");
  const std::string steps = plural(run.performance.value("last_step", std::int64_t{0}), "step");
  if (end == "target") return "reached its target after " + steps;
  if (end == "patience") return "stopped improving and ended after " + steps;
  return "finished after " + steps;
}

std::string hardware(const RunRecord& run) {
  const nlohmann::json& manifest = run.manifest;
  if (!manifest.is_object()) return "";
  return fmt::format("{} × {} on {}", plural(manifest.value("ranks", std::int64_t{1}), "rank"),
                     plural(manifest.value("threads_per_rank", std::int64_t{1}), "thread"),
                     text_at(manifest, "processor"));
}

std::string duration(double seconds) { return seconds < 60 ? readable(seconds, 2) + " s" : format_duration(seconds); }

std::string date_of(const RunRecord& run) {
  std::string time = text_at(run.manifest, "time");  // 2026-11-21T04:30:00Z
  if (time.size() < 16) return time;
  time[10] = ' ';
  return time.substr(0, 16) + " UTC";
}

// ---- Results ----

std::vector<KeyNumber> common_numbers(const RunRecord& run) {
  std::vector<KeyNumber> numbers;
  if (!run.training.empty()) {
    std::string remark = fmt::format("mean of the last {}", run.training.size() > 1 ? "interval" : "steps");
    if (!run.validation.empty() && run.validation.back().metrics.contains("loss")) {
      remark = "validation " + readable(run.validation.back().metrics.at("loss"), 3);
    }
    numbers.push_back({"training loss", readable(run.training.back().loss, 3), remark});
  }
  if (run.finished()) {
    const nlohmann::json& p = run.performance;
    const double rate = number_at(p, "samples_per_s"), gflops = number_at(p, "gflops");
    const double peak = number_at(p, "peak_gflops_per_rank") * number_at(p, "ranks");
    numbers.push_back(
        {"training time", duration(number_at(p, "seconds")), plural(p.value("samples", std::int64_t{0}), "sample")});
    if (rate > 0) {
      // Work is counted as direct convolutions do it; Winograd's transforms take fewer multiplications.
      const double share = gflops / peak;
      numbers.push_back({"throughput", readable(rate, 3) + " /s",
                         share > 1 ? fmt::format("{} GFLOP/s of direct convolutions, {:.2f} x what multiply-adds reach "
                                                 "(Winograd's transforms need fewer)",
                                                 readable(gflops, 3), share)
                                   : fmt::format("{} GFLOP/s, {:.0f} % of peak", readable(gflops, 3), 100 * share)});
    }
  }
  return numbers;
}

std::string comparison(const Reporter& reporter, const Runs& runs) {
  std::vector<std::string> names;
  for (const RunRecord& run : runs) names.push_back(html_escape(run.name));
  ComparisonRows rows(names);
  const auto add = [&](const std::string& what, const auto& value_of) {
    std::vector<std::string> cells;
    for (const RunRecord& run : runs) cells.push_back(html_escape(value_of(run)));
    rows.add(html_escape(what), cells);
  };
  add("state", state_of);
  add("started", date_of);
  std::vector<std::string> labels;  // of all runs, in their order
  const auto numbers_of = [&](const RunRecord& run) {
    std::vector<KeyNumber> numbers = reporter.key_numbers(run);
    for (KeyNumber& number : common_numbers(run)) numbers.push_back(std::move(number));
    return numbers;
  };
  for (const RunRecord& run : runs) {
    for (const KeyNumber& number : numbers_of(run)) {
      if (std::ranges::find(labels, number.label) == labels.end()) labels.push_back(number.label);
    }
  }
  for (const std::string& label : labels) {
    add(label, [&](const RunRecord& run) {
      for (const KeyNumber& number : numbers_of(run)) {
        if (number.label == label) return number.value;
      }
      return std::string();
    });
  }
  add("batch", [](const RunRecord& run) { return run.finished() ? run.performance.at("batch").dump() : ""; });
  add("ranks and threads", hardware);
  add("commit", [](const RunRecord& run) { return text_at(run.manifest, "commit"); });
  return table(rows.rows(), "The runs of this page.", "full");
}

// ---- Training ----

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
std::vector<double> columns(const Runs& runs, double TrainingPoint::* field) {
  std::vector<double> values;
  for (const RunRecord& run : runs) std::ranges::copy(column(run, field), std::back_inserter(values));
  return values;
}

std::vector<double> validations(const Runs& runs, const std::string& metric) {
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

std::string loss_figure(const Runs& runs) {
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

std::string metric_figure(const Runs& runs, const std::vector<std::string>& metrics) {
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

std::string simple_figure(const Runs& runs, double TrainingPoint::* field, const Axis& y, const std::string& caption) {
  Plot plot({"step", false, 0.0}, y);
  bool any = false;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::vector<double> values = column(runs[r], field);
    any |= std::ranges::any_of(values, [](double value) { return std::isfinite(value); });
    plot.line(steps_of(runs[r]), values, tone(r), runs.size() > 1 ? runs[r].name : "");
  }
  return any ? figure(plot, caption) : "";
}

std::string training_section(const Runs& runs) {
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
  return side_by_side(figures);
}

// ---- Environment and configuration ----

std::string joined(const nlohmann::json& list, const char* separator) {
  std::string text;
  for (const nlohmann::json& item : list) {
    text += (text.empty() ? "" : separator) + (item.is_string() ? item.get<std::string>() : item.dump());
  }
  return text;
}

std::string environment_section(const Runs& runs) {
  std::vector<std::string> names;
  for (const RunRecord& run : runs) names.push_back(runs.size() == 1 ? "" : html_escape(run.name));
  ComparisonRows rows(names);
  const auto add = [&](const std::string& what, const auto& html_of) {
    std::vector<std::string> cells;
    for (const RunRecord& run : runs) cells.push_back(run.manifest.is_object() ? html_of(run.manifest) : "");
    rows.add(what, cells);
  };
  const auto plain = [](const char* key) {
    return [key](const nlohmann::json& manifest) { return html_escape(text_at(manifest, key)); };
  };
  const auto code = [](const std::string& text) {
    return text.empty() ? "" : "<code>" + html_escape(text) + "</code>";
  };
  add("started", plain("time"));
  add("petaflow", [&](const nlohmann::json& m) {
    return html_escape(text_at(m, "version")) + ", commit " + code(text_at(m, "commit"));
  });
  add("compiler", [&](const nlohmann::json& m) {
    return html_escape(text_at(m, "compiler") + ", " + text_at(m, "build_type")) + " " + code(text_at(m, "flags"));
  });
  add("libraries", [](const nlohmann::json& m) {
    std::string text;
    const nlohmann::json libraries = m.value("libraries", nlohmann::json::object());
    for (const auto& [name, version] : libraries.items()) {
      // "Open MPI v4.1.4" names itself.
      text += (text.empty() ? "" : ", ") + (name == "MPI" ? "" : name + " ") + version.get<std::string>();
    }
    return html_escape(text);
  });
  add("processor", plain("processor"));
  add("ranks", [](const nlohmann::json& m) {
    constexpr std::size_t kShown = 8;
    const nlohmann::json binding = m.value("binding", nlohmann::json::array());
    std::string html;
    for (std::size_t i = 0; i < std::min(kShown, binding.size()); ++i) {
      const nlohmann::json& rank = binding[i];
      html +=
          html_escape(fmt::format("{}: {}, cores {}, {}", text_at(rank, "rank"), text_at(rank, "host"),
                                  text_at(rank, "cores"), plural(rank.value("threads", std::int64_t{1}), "thread"))) +
          "<br>";
    }
    std::set<std::string> hosts;
    for (const nlohmann::json& rank : binding) hosts.insert(text_at(rank, "host"));
    if (binding.size() > kShown) {
      html += html_escape(fmt::format("… {} ranks on {} hosts (manifest.json)", binding.size(), hosts.size()));
    }
    return html;
  });
  add("command",
      [&](const nlohmann::json& m) { return code(joined(m.value("command_line", nlohmann::json::array()), " ")); });
  add("environment", [&](const nlohmann::json& m) {
    std::string html;
    const nlohmann::json variables = m.value("environment", nlohmann::json::object());
    for (const auto& [name, value] : variables.items()) {
      html += code(name + "=" + value.get<std::string>()) + " ";
    }
    return html;
  });
  add("seed", plain("seed"));
  for (const char* set : {"train", "validation", "test"}) {
    add(std::string("data.") + set, [&](const nlohmann::json& m) {
      constexpr std::size_t kShown = 6;
      if (!m.contains("data") || !m.at("data").contains(set)) return std::string();
      const nlohmann::json& files = m.at("data").at(set);
      std::string html;
      for (std::size_t i = 0; i < std::min(kShown, files.size()); ++i) {
        html += code(text_at(files[i], "path"));
        if (files[i].contains("size_bytes")) {
          html += html_escape(fmt::format(" {} MB, {}", grouped(1e-6 * number_at(files[i], "size_bytes"), 1),
                                          text_at(files[i], "modified").substr(0, 10)));
        }
        html += "<br>";
      }
      if (files.size() > kShown) html += fmt::format("… {} files in all (manifest.json)", files.size());
      return html;
    });
  }
  if (rows.empty()) return "<p>No manifest.json in the folder of the run.</p>\n";
  return table(rows.rows(), "Where and with what the training ran.", "full text");
}

std::string configuration_section(const Runs& runs) {
  std::string html;
  if (runs.size() > 1) {
    std::vector<std::map<std::string, std::string>> values(runs.size());
    std::vector<std::string> keys;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (runs[r].config.empty()) continue;
      for (const Entry& entry : parse_document(runs[r].config, runs[r].folder + "/" + kConfigFile)) {
        if (entry.empty_table) continue;
        values[r][entry.key] = to_toml(entry.value);
        if (std::ranges::find(keys, entry.key) == keys.end()) keys.push_back(entry.key);
      }
    }
    std::vector<Row> rows = {{"key"}};
    for (const RunRecord& run : runs) rows[0].push_back(html_escape(run.name));
    for (const std::string& key : keys) {
      Row row = {"<code>" + html_escape(key) + "</code>"};
      bool differs = false;
      for (const auto& of_run : values) {
        const auto found = of_run.find(key);
        row.push_back(found == of_run.end() ? "–" : "<code>" + html_escape(found->second) + "</code>");
        differs |= row.back() != row[1];
      }
      if (differs) rows.push_back(row);
    }
    if (rows.size() > 1) html += table(rows, "Keys in which the runs differ.", "full text");
  }
  for (const RunRecord& run : runs) {
    if (run.config.empty()) continue;
    if (runs.size() > 1) html += "<h3>" + html_escape(run.name) + "</h3>\n";
    html += "<pre>" + html_escape(run.config) + "</pre>\n";
  }
  return html;
}

}  // namespace

std::string run_report(const PageHead& head, const Reporter& reporter, const Runs& runs) try {
  const bool one = runs.size() == 1;
  const RunRecord& first = runs.front();
  std::string subtitle = head.description;
  if (one) {
    for (const std::string& part : {state_of(first), date_of(first), hardware(first)}) {
      if (!part.empty()) subtitle += " · " + part;
    }
  }
  Page page(one ? first.name : fmt::format("{} runs of {}", runs.size(), head.application), subtitle);
  if (one) {
    std::vector<KeyNumber> numbers = reporter.key_numbers(first);
    for (KeyNumber& number : common_numbers(first)) numbers.push_back(std::move(number));
    page.key_numbers(numbers);
  } else {
    page.add(comparison(reporter, runs));
  }
  reporter.add_sections(page, runs);
  page.section("Training", training_section(runs));
  const std::string performance = performance_section(runs);
  if (!performance.empty()) page.section("Where the time went", performance);
  page.section("Environment", environment_section(runs));
  page.section("Configuration", configuration_section(runs));
  page.add(fmt::format("<footer>Made by petaflow {}, commit {}.</footer>\n", html_escape(build_info().version),
                       html_escape(build_info().commit)));
  return page.html();
} catch (const nlohmann::json::exception& error) {
  user_error("a JSON file of {} is not as petaflow writes it: {}", runs.size() == 1 ? runs.front().folder : "the runs",
             error.what());
}

void write_report(const PageHead& head, const Reporter& reporter, const std::string& folder) {
  write_file_atomically(folder + "/" + kReportFile, run_report(head, reporter, {read_run(folder)}));
}

}  // namespace petaflow
