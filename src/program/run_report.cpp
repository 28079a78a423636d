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
#include "report/training_figures.hpp"
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
    // Times and rates are of the last process.
    const bool resumed = p.value("steps", std::int64_t{0}) < p.value("last_step", std::int64_t{0});
    numbers.push_back({resumed ? "training time since the last resume" : "training time",
                       duration(number_at(p, "seconds")), plural(p.value("samples", std::int64_t{0}), "sample")});
    if (const double rate = number_at(p, "samples_per_s"); rate > 0) {
      numbers.push_back({"throughput", readable(rate, 3) + " /s", sustained_text(p)});
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
    if (rows.size() > 1) html += table(rows, "Options in which the runs differ.", "full text");
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
  page.section("Training", training_section(runs) + (one ? tuning_table(first) : ""));
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
