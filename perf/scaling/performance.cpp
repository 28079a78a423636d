#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "config/document.hpp"
#include "scaling/inputs.hpp"

namespace petaflow::scaling {

void take_times(TrustedWorkload& workload, const std::string& performance_path) {
  const nlohmann::json performance = nlohmann::json::parse(read_text_file(performance_path), nullptr, false);
  if (!performance.is_object() || !performance.contains("stages")) {
    user_error("{} is no performance.json: it has no \"stages\"", performance_path);
  }
  const double steps = performance.value("own_steps", 0.0);
  if (!performance.contains("time") || steps < 1) {
    user_error("{} is of no training: it has no \"time\" and \"own_steps\"", performance_path);
  }
  const auto part_s = [&](const std::string& name) {
    for (const nlohmann::json& part : performance["time"]) {
      if (part.value("part", "") == name) return part.value("seconds", 0.0) / steps;
    }
    return 0.0;
  };
  const auto measured = [&](const std::string& name, double ms) {
    workload.inputs.push_back({performance_path, name, ms, "measured", "mean of its steps"});
  };
  Workload& times = workload.workload;
  times.other_s = part_s("input");
  times.optimizer_s = part_s("optimizer");
  times.server_element_s = times.optimizer_s / static_cast<double>(times.elements());
  std::erase_if(workload.inputs, [](const Input& input) { return input.name.ends_with("_ms"); });
  measured("other_ms", 1e3 * times.other_s);
  measured("optimizer_ms", 1e3 * times.optimizer_s);
  for (StageTimes& stage : times.stages) {
    const auto& all = performance["stages"];
    const auto found = std::ranges::find_if(all, [&](const nlohmann::json& one) {
      const std::string name = one.value("stage", "");
      return name == stage.name || name.starts_with(stage.name + " ");
    });
    if (found == all.end()) user_error("{} has no stage {}", performance_path, stage.name);
    stage.forward_s = 1e-3 * found->value("forward_ms", 0.0);
    stage.backward_s = 1e-3 * found->value("backward_ms", 0.0);
    measured("stages." + stage.name + " forward", 1e3 * stage.forward_s);
    measured("stages." + stage.name + " backward", 1e3 * stage.backward_s);
  }
}

}  // namespace petaflow::scaling
