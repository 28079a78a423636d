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
  for (StageTimes& stage : workload.workload.stages) {
    const auto& all = performance["stages"];
    const auto found = std::ranges::find_if(all, [&](const nlohmann::json& measured) {
      const std::string name = measured.value("name", "");
      return name == stage.name || name.starts_with(stage.name + " ");
    });
    if (found == all.end()) user_error("{} has no stage {}", performance_path, stage.name);
    stage.forward_s = 1e-3 * found->value("forward_ms", 0.0);
    stage.backward_s = 1e-3 * found->value("backward_ms", 0.0);
    for (Input& input : workload.inputs) {
      if (input.name == "stages." + stage.name) input.trust = "measured", input.source = performance_path;
    }
  }
}

}  // namespace petaflow::scaling
