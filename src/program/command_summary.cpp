// summary INPUT: what the network is and how it would be computed; needs no data.
#include <algorithm>
#include <span>

#include <nlohmann/json.hpp>

#include "comm/agree.hpp"
#include "io/progress.hpp"
#include "kernels/conv.hpp"
#include "measure/rates.hpp"
#include "program/commands.hpp"
#include "run/tuning.hpp"
#include "train/batch_share.hpp"

namespace petaflow {
namespace {

std::string dims_of(const Parameter& parameter) {
  return fmt::format("{} ({}){}", parameter.name, fmt::join(parameter.spec.dims, ", "),
                     parameter.spec.trained() ? "" : ", a running statistic");
}

std::int64_t parameters_of(const Network& network, std::size_t layer) {
  std::int64_t count = 0;
  for (const Parameter& parameter : network.parameters()) {
    if (parameter.spec.trained() && parameter.layer == layer) count += parameter.spec.elements();
  }
  return count;
}

std::size_t sum_of_blocks(std::span<const BlockReport> blocks) {
  std::size_t sum = 0;
  for (const BlockReport& block : blocks) sum += block.size_bytes;
  return sum;
}

std::string mib(std::size_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20)); }

/// The largest blocks of the arena and when they are alive.
std::string memory_table(const Network& network) {
  constexpr std::size_t kNamed = 10;
  const std::vector<BlockReport> blocks = network.blocks();
  std::vector<std::vector<std::string>> rows = {{"block", "MiB", "from MiB", "alive"}};
  for (const BlockReport& block : std::span(blocks).first(std::min(kNamed, blocks.size()))) {
    rows.push_back({block.name, mib(block.size_bytes), mib(block.offset), block.alive});
  }
  if (blocks.size() > kNamed) {
    const std::span<const BlockReport> others = std::span(blocks).subspan(kNamed);
    rows.push_back({format_count(std::ssize(others), "smaller one"), mib(sum_of_blocks(others)), "", ""});
  }
  return format_table(rows);
}

nlohmann::json to_json(const Graph& graph, const Network& network) {
  const auto batch = static_cast<double>(network.batch());
  nlohmann::json json = {{"parameters", network.trained_elements()},
                         {"parameter_bytes", network.trained_elements() * 4},
                         {"forward_flop", network.forward_flop() / batch},
                         {"backward_flop", network.backward_flop() / batch},
                         {"again_flop", network.again_flop() / batch},
                         {"pass", network.batch()},
                         {"arena_bytes", network.arena_bytes()},
                         {"arena_bytes_per_sample", static_cast<double>(network.arena_bytes()) / batch},
                         {"block_bytes", sum_of_blocks(network.blocks())}};
  for (const BlockReport& block : network.blocks()) {
    json["blocks"].push_back(
        {{"name", block.name}, {"bytes", block.size_bytes}, {"offset", block.offset}, {"alive", block.alive}});
  }
  for (std::size_t layer = 0; layer < graph.nodes().size(); ++layer) {
    const Graph::Node& node = graph.nodes()[layer];
    json["layers"].push_back({{"name", node.name},
                              {"input", sample_to_string(node.input)},
                              {"output", sample_to_string(node.output)},
                              {"parameters", parameters_of(network, layer)},
                              {"forward_flop", node.layer->cost(node.input).flop}});
  }
  for (const Parameter& parameter : network.parameters()) {
    json["weights"].push_back(
        {{"name", parameter.name}, {"dims", parameter.spec.dims}, {"trained", parameter.spec.trained()}});
  }
  for (const StageReport& stage : network.report()) {
    json["stages"].push_back({{"name", stage.name},
                              {"layers", stage.layers},
                              {"output", to_string(stage.output)},
                              {"forward", stage.forward},
                              {"backward_data", stage.backward_data},
                              {"backward_weights", stage.backward_weights},
                              {"refusals", stage.refusals},
                              {"again", stage.again},
                              {"forward_flop", stage.forward_flop / batch},
                              {"backward_flop", stage.backward_flop / batch},
                              {"saved_bytes", stage.saved_bytes},
                              {"scratch_bytes", stage.scratch_bytes}});
  }
  return json;
}

std::string to_text(const Graph& graph, const Network& network) {
  const auto batch = static_cast<double>(network.batch());
  std::vector<std::vector<std::string>> layers = {{"layer", "input", "output", "parameters", "MFLOP"}};
  for (std::size_t layer = 0; layer < graph.nodes().size(); ++layer) {
    const Graph::Node& node = graph.nodes()[layer];
    layers.push_back({node.name, sample_to_string(node.input), sample_to_string(node.output),
                      std::to_string(parameters_of(network, layer)),
                      fmt::format("{:.1f}", 1e-6 * node.layer->cost(node.input).flop)});
  }
  std::vector<std::vector<std::string>> stages = {
      {"stage", "forward", "backward data", "backward weights", "saved MiB"}};
  std::string refusals;
  for (const StageReport& stage : network.report()) {
    stages.push_back({stage.name, stage.forward, stage.backward_data, stage.backward_weights,
                      fmt::format("{:.1f}", static_cast<double>(stage.saved_bytes) / (1 << 20))});
    for (const std::string& refusal : stage.refusals) refusals += fmt::format("\n  {}", refusal);
  }
  std::string weights;
  for (const Parameter& parameter : network.parameters()) weights += fmt::format("\n  {}", dims_of(parameter));
  return fmt::format(
      "{}\n\n{}{}{}\n\nweights{}\n\nmemory\n{}\n\n{} parameters, {}; forward {:.3f} GFLOP per sample, backward "
      "{:.3f}\nmemory for a micro-batch of {}: {}, {} per sample; without sharing it would be {}",
      format_table(layers), format_table(stages), refusals.empty() ? "" : "\n\nnot chosen", refusals, weights,
      memory_table(network), network.trained_elements(),
      format_bytes(static_cast<std::size_t>(network.trained_elements()) * 4), 1e-9 * network.forward_flop() / batch,
      1e-9 * network.backward_flop() / batch, format_count(network.batch(), "sample"),
      format_bytes(network.arena_bytes()),
      format_bytes(network.arena_bytes() / static_cast<std::size_t>(network.batch())),
      format_bytes(sum_of_blocks(network.blocks())));
}

std::string tuning_text(int found, int unknown) {
  const std::string cache = tuning_cache_path();
  std::string text = fmt::format("kernels.conv = \"tune\": {} of {} choices found in {}", found, found + unknown,
                                 cache.empty() ? "no file: neither XDG_CACHE_HOME nor HOME is set" : cache);
  if (unknown > 0) {
    text += fmt::format(
        "; {} passes have not been timed yet on this machine: shown is what \"auto\" takes (bench and train time them)",
        unknown);
  }
  return text;
}

}  // namespace

int command_summary(const CommandLine& line, Configuration& config, const Task& task, Communicator& comm) {
  config.load_input(comm, line);
  const CommonOptions& options = config.options;
  if (!line.gpu.empty()) return summarise_for_gpu(line, options, task, comm);
  const Context context;
  std::unique_ptr<ConvTuning> tuning;
  if (options.kernels.conv.rule == ConvRequest::Rule::kTune) tuning = look_up_tuning(comm, context.threads);
  agree(comm, [&] {
    const Graph graph = task.model(task.sample_shape());
    NetworkOptions not_run = training_options(options, comm);
    not_run.runs = false;
    int found = 0;
    if (tuning) tuning->on_choice = [&](const auto&...) { ++found; };
    const Network network(graph, not_run, context, tuning.get());
    const std::vector<std::string> products = describe_products(options);
    const std::string recompute = describe_recompute(graph, not_run, network);
    if (line.json) {
      nlohmann::json json = to_json(graph, network);
      json["precision"] = options.precision;
      if (!recompute.empty()) json["recompute"] = recompute;
      if (!products.empty()) json["bf16_products"] = bf16_products();
      if (tuning) json["tuning"] = {{"file", tuning_cache_path()}, {"found", found}, {"not_timed", tuning->unknown}};
      return print(comm, json.dump(2));
    }
    std::string text = to_text(graph, network);
    if (!recompute.empty()) text += "\n" + recompute;
    for (const std::string& sentence : products) text += "\n" + sentence;
    if (tuning) text += "\n" + tuning_text(found, tuning->unknown);
    print(comm, text);
  });
  return kDone;
}

}  // namespace petaflow
