#include "train/scheme_checks.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "io/progress.hpp"
#include "nn/lowering.hpp"
#include "nn/network.hpp"
#include "servers/session.hpp"
#include "update/optimizer.hpp"

namespace petaflow {
namespace {

bool sums_over_ranks(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Graph::Node& node) {
    Lowering ops;
    node.layer->lower(ops);
    return std::ranges::any_of(ops.operations(), [](const Operation& operation) {
      const auto* norm = std::get_if<BatchNormOp>(&operation);
      return norm != nullptr && norm->options.scope == BatchNormScope::kRanks;
    });
  });
}

void check_layers(const Graph& graph, const OptimizerOptions& optimizer, const UpdateOptions& update) {
  const std::vector<Slice> layers =
      layers_of(list_parameters(graph), {.servers = static_cast<int>(update.servers), .cut_layers = update.cut_layers});
  if (std::cmp_greater(update.servers, layers.size())) {
    const auto count = std::ssize(layers);
    user_error("update.servers is {}, but the network has {}, each of which one server keeps; set it to {} or less{}",
               update.servers,
               update.cut_layers ? format_count(count, "weight") : format_count(count, "layer") + " with weights",
               count, update.cut_layers || needs_whole_tensors(optimizer) ? "" : ", or update.cut_layers to true");
  }
  for (const Slice& layer : layers) {
    if (static_cast<std::size_t>(layer.size()) * sizeof(float) <= kLargestMessage) continue;
    user_error(
        "a layer has {} weights, more than the {} that one message to its server holds; set update.servers to 0, or "
        "update.cut_layers to true with more servers",
        layer.size(), kLargestMessage / sizeof(float));
  }
}

}  // namespace

void check_scheme(const Graph& graph, const OptimizerOptions& optimizer, const UpdateOptions& update,
                  const CommOptions& comm, int ranks) {
  if (update.servers > 0) check_layers(graph, optimizer, update);
  if (!sums_over_ranks(graph) && comm.norm_ranks > 0) {
    user_error(
        "comm.norm_ranks = {} says over how many ranks batch norm takes its statistics, but the model has no batch "
        "norm over ranks; set comm.norm_ranks to 0, or (cosmoflow) model.batch_norm to \"global\"",
        comm.norm_ranks);
  }
  if (sums_over_ranks(graph) && update.groups > 1 && comm.norm_ranks == 0) {
    user_error(
        "the model has batch norm over all ranks, but update.groups = {} groups of {} work at steps of their own; set "
        "comm.norm_ranks to {}, or update.groups to 1",
        update.groups, format_count(ranks, "rank"), ranks);
  }
}

}  // namespace petaflow
