#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "config/document.hpp"
#include "scaling/inputs.hpp"

namespace petaflow::scaling {

namespace {

/// @param elements  that the network must have
nlohmann::json read_performance(const std::string& path, std::int64_t elements) {
  nlohmann::json performance = nlohmann::json::parse(read_text_file(path), nullptr, false);
  if (!performance.is_object() || !performance.contains("stages")) {
    user_error("{} is no performance.json: it has no \"stages\"", path);
  }
  if (!performance.contains("time_of_rank_0") || performance.value("own_steps", 0.0) < 1) {
    user_error("{} is of no training: it has no \"time_of_rank_0\" and \"own_steps\"", path);
  }
  if (const std::int64_t there = performance.value("parameters", elements); there != elements) {
    user_error("{} is of a network of {} parameters, the workload has {}; choose another --workload", path, there,
               elements);
  }
  return performance;
}

/// Of one step of rank 0, as all times here.
double seconds_of(const nlohmann::json& performance, const std::string& name) {
  for (const nlohmann::json& part : performance["time_of_rank_0"]) {
    if (part.value("part", "") == name) return part.value("seconds", 0.0) / performance["own_steps"].get<double>();
  }
  return 0;
}

double waited_s(const nlohmann::json& performance) {
  double seconds = 0;
  const nlohmann::json communication = performance.value("communication", nlohmann::json::object());
  for (const nlohmann::json& rank : communication.value("ranks", nlohmann::json::array())) {
    if (rank.value("rank", -1) != 0) continue;
    for (const nlohmann::json& wait : rank.at("waited")) seconds += wait.value("seconds", 0.0);
  }
  return seconds / performance["own_steps"].get<double>();
}

}  // namespace

void take_times(TrustedWorkload& workload, const std::string& stages_path, const std::string& optimizer_path) try {
  Workload& times = workload.workload;
  const nlohmann::json performance = read_performance(stages_path, times.elements()),
                       of_optimizer = read_performance(optimizer_path, times.elements());
  const auto measured = [&](const std::string& path, const std::string& name, double ms) {
    workload.inputs.push_back({path, name, ms, "measured", "mean of its steps"});
  };
  if (performance.contains("pass")) {
    workload.samples = performance["pass"].get<double>() * performance.value("passes_per_step", 1.0);
    workload.inputs.push_back({stages_path, "samples", workload.samples, "measured", "of a rank and step"});
    std::erase_if(workload.inputs,
                  [&](const Input& input) { return input.name == "samples" && input.file != stages_path; });
  }
  times.other_s = seconds_of(performance, "input");
  times.optimizer_s = seconds_of(of_optimizer, "optimizer");
  times.server_element_s = times.optimizer_s / static_cast<double>(times.elements());
  std::erase_if(workload.inputs, [](const Input& input) { return input.name.ends_with("_ms"); });
  measured(stages_path, "other_ms", 1e3 * times.other_s);
  measured(optimizer_path, "optimizer_ms", 1e3 * times.optimizer_s);
  const double passes = performance.value("passes_per_step", 1.0);
  double backward_s = 0;
  // Between stages sums start and are looked after, and a rank hands its core to another one that shares it.
  double between_s = performance.value("seconds", 0.0) / performance["own_steps"].get<double>() - times.other_s -
                     seconds_of(performance, "optimizer") - waited_s(performance);
  for (StageTimes& stage : times.stages) {
    const auto& all = performance["stages"];
    const auto found = std::ranges::find_if(all, [&](const nlohmann::json& one) {
      const std::string name = one.value("stage", "");
      return name == stage.name || name.starts_with(stage.name + " ");
    });
    if (found == all.end())
      user_error("{} has no stage {} of the workload; choose another --workload", stages_path, stage.name);
    stage.forward_s = 1e-3 * passes * found->value("forward_ms", 0.0);
    stage.backward_s = 1e-3 * passes * found->value("backward_ms", 0.0);
    measured(stages_path, "stages." + stage.name + " forward", 1e3 * stage.forward_s);
    measured(stages_path, "stages." + stage.name + " backward", 1e3 * stage.backward_s);
    backward_s += stage.backward_s;
    between_s -= stage.forward_s + stage.backward_s;
  }
  between_s = std::max(0.0, between_s);
  measured(stages_path, "between stages", 1e3 * between_s);
  if (!(backward_s > 0)) return;
  for (StageTimes& stage : times.stages) stage.backward_s *= 1 + between_s / backward_s;
} catch (const nlohmann::json::exception& error) {
  user_error("{} or {} is no performance.json that this program knows: {}", stages_path, optimizer_path, error.what());
}

}  // namespace petaflow::scaling
