// summary INPUT --gpu NAME: what cuDNN would run on a GPU that need not be there, as on a login node.
#include <algorithm>
#include <array>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "io/progress.hpp"
#include "kernels/card.hpp"
#include "measure/rates.hpp"
#include "nn/lowering.hpp"
#include "program/commands.hpp"

namespace petaflow {
namespace {

constexpr std::array kPasses = {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights};

const Card& card_of(const std::string& name) {
  const auto found = std::ranges::find_if(kCards, [&](const Card& card) { return name == card.name; });
  PETAFLOW_REQUIRE(found != kCards.end(), "a GPU {}", name);
  return *found;
}

struct StagePlan {
  std::string name;
  std::array<std::optional<ConvPlan>, 3> passes;  // nothing: no gradient of its input is asked for
};

std::vector<StagePlan> plan(const Graph& graph, const NetworkOptions& options) {
  ConvRequest request = options.kernels.conv;
  if (request.rule == ConvRequest::Rule::kTune) request.rule = ConvRequest::Rule::kAuto;
  std::vector<StagePlan> stages;
  for (const LoweredConvolution& convolution : list_convolutions(graph, options)) {
    StagePlan& stage = stages.emplace_back();
    stage.name = convolution.name;
    for (const Pass pass : kPasses) {
      if (pass == Pass::kBackwardData && !convolution.wants_dx) continue;
      stage.passes[static_cast<std::size_t>(pass)] =
          plan_conv(pass_of(convolution.role, pass), convolution.conv, request);
    }
  }
  return stages;
}

nlohmann::json to_json(const std::vector<StagePlan>& stages) {
  nlohmann::json json = nlohmann::json::array();
  for (const StagePlan& stage : stages) {
    nlohmann::json& entry = json.emplace_back(nlohmann::json{{"name", stage.name}});
    for (const Pass pass : kPasses) {
      if (const auto& planned = stage.passes[static_cast<std::size_t>(pass)]) {
        entry[name_of(pass)] = {{"engine", planned->engine},
                                {"workspace_bytes", planned->workspace_bytes},
                                {"refusals", planned->refusals}};
      }
    }
  }
  return json;
}

std::string to_text(const std::vector<StagePlan>& stages) {
  std::vector<std::vector<std::string>> rows = {
      {"stage", "forward", "MiB", "backward data", "MiB", "backward weights", "MiB"}};
  std::string refusals;
  for (const StagePlan& stage : stages) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(stage.name);
    for (const std::optional<ConvPlan>& planned : stage.passes) {
      row.push_back(planned ? planned->engine : "-");
      row.push_back(planned ? fmt::format("{:.1f}", static_cast<double>(planned->workspace_bytes) / (1 << 20)) : "-");
      if (!planned) continue;
      for (const std::string& refusal : planned->refusals) refusals += fmt::format("\n  {}: {}", stage.name, refusal);
    }
  }
  return format_table(rows) + (refusals.empty() ? "" : "\n\nnot chosen" + refusals);
}

}  // namespace

int summarise_for_gpu(const CommandLine& line, const CommonOptions& options, const Task& task, Communicator& comm) {
  agree(comm, [&] {
    plan_convs_for(card_of(line.gpu));
    const std::int64_t samples = micro_batch_size(options, comm);
    const std::vector<StagePlan> stages = plan(task.model(task.sample_shape()), network_options(options, samples));
    if (line.json) {
      const nlohmann::json json = {
          {"gpu", line.gpu}, {"precision", options.precision}, {"pass", samples}, {"stages", to_json(stages)}};
      return print(comm, json.dump(2));
    }
    print(comm, fmt::format("{}\n\nby cuDNN's heuristics for an {}, {}, a micro-batch of {}; MiB: workspaces",
                            to_text(stages), line.gpu, options.precision, format_count(samples, "sample")));
  });
  return kDone;
}

}  // namespace petaflow
