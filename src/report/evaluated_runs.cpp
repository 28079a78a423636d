#include "report/evaluated_runs.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "report/html.hpp"

namespace petaflow {

const nlohmann::json* evaluation_part(const RunRecord& run, const char* part) {
  if (!run.evaluation.is_object()) return nullptr;
  const auto found = run.evaluation.find(part);
  return found != run.evaluation.end() && found->is_object() && !found->empty() ? &*found : nullptr;
}

std::string evaluated_set(const RunRecord& run) {
  return run.evaluation.value("set", "") == "data.test" ? "test set" : "validation set";
}

std::vector<EvaluatedRun> evaluated_runs(const std::vector<RunRecord>& runs) {
  std::vector<EvaluatedRun> evaluated;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (evaluation_part(runs[i], "results") != nullptr) evaluated.push_back({i, &runs[i]});
  }
  return evaluated;
}

std::string evaluated_sets(const std::vector<EvaluatedRun>& runs, const std::string& samples,
                           const std::function<std::string(const nlohmann::json& results)>& detail) {
  std::vector<std::pair<std::string, std::string>> sets;  // what was evaluated on, by which runs
  for (const EvaluatedRun& evaluated : runs) {
    const nlohmann::json& evaluation = evaluated.run->evaluation;
    const auto files = evaluation.value("files", std::vector<std::string>());
    const std::size_t seen = evaluation.value("seen_in_training", std::vector<std::string>()).size();
    const std::string set =
        fmt::format("{} {} of the {} (<code>{}</code>){}{}", grouped(evaluation.value("samples", 0.0)), samples,
                    evaluated_set(*evaluated.run), html_escape(fmt::format("{}", fmt::join(files, ", "))),
                    detail(evaluated.results()),
                    seen == 0 ? "" : fmt::format("; <strong>training saw {} of these files</strong>", seen));
    const std::string name = html_escape(evaluated.run->name);
    const auto same = std::ranges::find(sets, set, &std::pair<std::string, std::string>::first);
    if (same == sets.end()) {
      sets.emplace_back(set, name);
    } else {
      same->second += ", " + name;
    }
  }
  std::string html;
  for (const auto& [set, names] : sets) html += "<p>" + (sets.size() > 1 ? names + ": " : "") + set + ".</p>\n";
  return html;
}

}  // namespace petaflow
