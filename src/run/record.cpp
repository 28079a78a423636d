#include "run/record.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "config/document.hpp"
#include "report/json_values.hpp"
#include "run/files.hpp"

namespace petaflow {
namespace {

namespace fs = std::filesystem;

nlohmann::json read_json(const fs::path& path) {
  if (!fs::exists(path)) return {};
  nlohmann::json json = nlohmann::json::parse(read_text_file(path.string()), nullptr, false);
  if (!json.is_object()) user_error("{} is not a JSON object; remove it to go without it", path.string());
  return json;
}

/// Takes away what a resumed run did again.
template <class Point>
void append(std::vector<Point>& points, Point point) {
  while (!points.empty() && points.back().step >= point.step) points.pop_back();
  points.push_back(std::move(point));
}

void read_metrics(const fs::path& path, RunRecord& run) {
  std::istringstream lines(read_text_file(path.string()));
  for (std::string text; std::getline(lines, text);) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object()) continue;  // cut short by a crash
    const auto step = line.find("step");
    if (step == line.end() || !step->is_number_integer()) continue;
    const std::int64_t epoch = line.value("epoch", std::int64_t{0});
    if (const auto values = line.find("validation"); values != line.end() && values->is_object()) {
      ValidationPoint point{step->get<std::int64_t>(), epoch, {}};
      for (const auto& [name, value] : values->items()) {
        if (value.is_number()) point.metrics[name] = value.get<double>();
      }
      append(run.validation, point);
    } else if (const auto trial = line.find("tuning"); trial != line.end() && trial->is_object()) {
      // Searches at later steps are to be made again; the trials of one have the same step.
      while (!run.tuning.empty() && run.tuning.back().step > step->get<std::int64_t>()) run.tuning.pop_back();
      run.tuning.push_back({step->get<std::int64_t>(), epoch, trial->value("groups", std::int64_t{0}),
                            number_at(*trial, "momentum"), number_at(*trial, "lr"), number_at(*trial, "loss"),
                            trial->value("chosen", false)});
    } else {
      append(run.training, TrainingPoint{step->get<std::int64_t>(), epoch, number_at(line, "loss"),
                                         number_at(line, "lr"), number_at(line, "samples_per_s"),
                                         number_at(line, "gflops"), number_at(line, "noise_scale")});
      // Validations at this or later steps are to be made again.
      while (!run.validation.empty() && run.validation.back().step >= run.training.back().step)
        run.validation.pop_back();
    }
  }
}

}  // namespace

std::string why_no_run(const std::string& folder) {
  const fs::path path(folder);
  if (!fs::is_directory(path)) return fmt::format("{} is not the folder of a run", folder);
  if (fs::exists(path / kConfigFile) || fs::exists(path / kMetricsFile)) return "";
  return fmt::format("{} holds no run: neither {} nor {} is there", folder, kConfigFile, kMetricsFile);
}

RunRecord read_run(const std::string& folder) try {
  if (const std::string reason = why_no_run(folder); !reason.empty()) user_error("{}", reason);
  const fs::path path(folder);
  RunRecord run;
  run.folder = folder;
  run.name = fs::absolute(path).lexically_normal().filename().string();
  if (run.name.empty()) run.name = fs::absolute(path).lexically_normal().parent_path().filename().string();
  if (fs::exists(path / kConfigFile)) run.config = read_text_file((path / kConfigFile).string());
  run.manifest = read_json(path / kManifestFile);
  run.performance = read_json(path / kPerformanceFile);
  run.evaluation = read_json(path / kEvaluationFile);
  run.trace = read_json(path / kTraceFile);
  if (run.evaluation.contains("judgement")) run.evaluation["results"] = run.evaluation["judgement"];  // former name
  if (fs::exists(path / kMetricsFile)) read_metrics(path / kMetricsFile, run);
  // Results that an earlier part of a resumed run left at its end say nothing of this one.
  const std::int64_t last = run.training.empty() ? 0 : run.training.back().step;
  if (run.performance.is_object() && run.performance.value("last_step", std::int64_t{0}) < last) {
    run.performance = run.evaluation = nullptr;
  }
  return run;
} catch (const nlohmann::json::exception& error) {
  user_error("a JSON file of {} is not as petaflow writes it: {}", folder, error.what());
}

}  // namespace petaflow
