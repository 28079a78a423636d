// What a plan of memory is held to: a least size, and the moments in which a graph uses each block.
#pragma once

#include <algorithm>
#include <climits>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "nn/graph.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/concat.hpp"
#include "nn/layers/conv.hpp"
#include "nn/network.hpp"

namespace petaflow::testing_support {

/// The size of the plan over the most that is alive at once, which no plan is below; each block takes `size` of its
/// bytes.
template <class Size>
double plan_over_bound(const Network& network, const Size& size) {
  std::size_t bound = 0, end = 0;
  for (int moment = 0; moment < network.moments(); ++moment) {
    std::size_t alive = 0;
    for (const BlockReport& block : network.blocks()) {
      if (block.first <= moment && moment <= block.last) alive += size(block.size_bytes);
    }
    bound = std::max(bound, alive);
  }
  for (const BlockReport& block : network.blocks()) end = std::max(end, block.offset + size(block.size_bytes));
  return static_cast<double>(end) / static_cast<double>(bound);
}

/// The moments in which blocks of values and gradients are used, from the edges of the graph and the stages that layers
/// became part of: values from the first stage that writes them to the last that reads them, in backward passes
/// convolutions and batch norm; gradients from the last reader to the first writer.
class MomentsOfUse {
 public:
  /// @param batch  of the network
  MomentsOfUse(const Graph& graph, const Network& network, std::int64_t batch)
      : graph_(graph), stages_(network.report()), block_(graph.values()) {
    for (const BlockReport& block : network.blocks()) names_.insert(block.name);
    name_blocks();
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (stages_[s].layers.empty()) {  // "copy of x for concatenation"
        const std::string name = stages_[s].name.substr(8);
        const std::string from = name.substr(0, name.find(" for ")), into = name.substr(from.size() + 5);
        const GraphValue x = from == "input" ? Graph::input() : value(from);
        use(s, x, false, x.index > 0);
        use(s, node(into).outputs[0], false, x.index > 0);
        continue;
      }
      std::set<std::size_t> inside;
      for (const std::string& layer : stages_[s].layers) {
        const Layer* kind = node(layer).layer.get();
        const bool again =
            dynamic_cast<const Conv*>(kind) != nullptr || dynamic_cast<const BatchNorm*>(kind) != nullptr;
        for (const GraphValue x : node(layer).inputs) {
          if (!inside.contains(x.index)) use(s, x, again, true);
        }
        for (const GraphValue y : node(layer).outputs) inside.insert(y.index);
      }
      for (const GraphValue y : node(stages_[s].layers.back()).outputs) use(s, y, false, true);
      expect_own(s);
    }
    for (std::size_t v = 0; v < graph.values(); ++v) {
      // Concatenations name their block last, and are as large as it.
      const auto bytes = static_cast<std::size_t>(graph.shape({v}).with_batch(batch).elements()) * sizeof(float);
      for (const char* what : {"", " gradient"}) {
        std::size_t& size = sizes_[block_[v] + what];
        size = std::max(size, bytes);
      }
    }
    uses_["input"] = {kForever, INT_MAX};
    for (const GraphValue output : graph.outputs()) {
      for (const char* what : {"", " gradient"}) uses_[block_[output.index] + what] = {kForever, INT_MAX};
    }
  }

  /// Copies for readers that take whole pixels only are no values of the graph and pass.
  bool contain(const BlockReport& block) const {
    const auto found = uses_.find(block.name);
    if (found == uses_.end()) return block.name == "weights" || block.name.starts_with("copy of ");
    const auto size = sizes_.find(block.name);
    std::pair<int, int> use = found->second;
    // A gradient without memory of its own takes the value's, where it is written first when that is read last.
    const auto gradient = uses_.find(block.name + " gradient");
    if (gradient != uses_.end() && !names_.contains(gradient->first) && gradient->second.first == use.second)
      use.second = gradient->second.second;
    return use.first <= block.first && block.last <= use.second &&
           (size == sizes_.end() || block.size_bytes <= size->second);
  }

 private:
  const Graph::Node& node(const std::string& layer) const {
    return *std::ranges::find(graph_.nodes(), layer, &Graph::Node::name);
  }
  /// A value by its name: the first layer of the stage that writes it, and ":1" where it is the second.
  GraphValue value(const std::string& name) const {
    const std::size_t colon = name.find(':');
    const std::string first = name.substr(0, colon);
    const auto stage = std::ranges::find_if(
        stages_, [&](const StageReport& s) { return !s.layers.empty() && s.layers.front() == first; });
    return node(stage == stages_.end() ? first : stage->layers.back())
        .outputs[colon == name.npos ? 0 : std::stoul(name.substr(colon + 1))];
  }
  /// A block has the name of the first layer of the stage that writes it.  A value without one lies in the first
  /// concatenation that takes it.
  void name_blocks() {
    block_[0] = "input";
    for (const StageReport& stage : stages_) {
      if (stage.layers.empty()) continue;
      const std::vector<GraphValue>& y = node(stage.layers.back()).outputs;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::string own = fmt::format("{}{} output", stage.layers.front(), i == 0 ? "" : fmt::format(":{}", i));
        if (names_.contains(own)) block_[y[i].index] = own;
      }
    }
    std::vector<std::size_t> host(graph_.values(), 0);
    for (const Graph::Node& n : graph_.nodes()) {
      if (dynamic_cast<const Concat*>(n.layer.get()) == nullptr) continue;
      if (names_.contains(n.name + " output")) block_[n.outputs[0].index] = n.name + " output";
      for (const GraphValue x : n.inputs) {
        if (block_[x.index].empty() && host[x.index] == 0) host[x.index] = n.outputs[0].index;
      }
    }
    for (std::size_t v = graph_.values(); v-- > 0;) {
      if (block_[v].empty()) block_[v] = block_[host[v]];
    }
  }
  /// What a stage keeps for its backward pass, and memory of single passes, as large as the stage says.  Gradients in
  /// memory of their own come only where others give to the same place: to a value that several read, or a part of one.
  void expect_own(std::size_t stage) {
    const StageReport& report = stages_[stage];
    const std::string& name = report.layers.front();
    const int forward = static_cast<int>(stage), backward = static_cast<int>(2 * stages_.size() - 1 - stage);
    uses_[name + " saved"] = {forward, backward};
    uses_[name + " forward scratch"] = {forward, forward};
    uses_[name + " backward scratch"] = {backward, backward};
    sizes_[name + " saved"] = report.saved_bytes;
    sizes_[name + " forward scratch"] = sizes_[name + " backward scratch"] = report.scratch_bytes;
    const auto shared = [&](GraphValue x) {
      std::int64_t readers = std::ranges::count(graph_.outputs(), x);
      for (const Graph::Node& n : graph_.nodes()) {
        const bool concatenates = dynamic_cast<const Concat*>(n.layer.get()) != nullptr;
        readers += std::ranges::count(n.inputs, x) * (concatenates ? 2 : 1);
        if (concatenates && n.outputs[0] == x) readers = 2;
      }
      return readers > 1;
    };
    for (const std::string& layer : report.layers) {
      if (std::ranges::any_of(node(layer).inputs, shared)) uses_[name + " gradient to add"] = {backward, backward};
    }
  }
  void use(std::size_t stage, GraphValue value, bool again, bool gradient) {
    const std::size_t backward = 2 * stages_.size() - 1 - stage;
    touch(block_[value.index], stage);
    if (again) touch(block_[value.index], backward);
    if (gradient) touch(block_[value.index] + " gradient", backward);
  }
  void touch(const std::string& block, std::size_t moment) {
    auto& [first, last] = uses_.try_emplace(block, INT_MAX, -1).first->second;
    first = std::min(first, static_cast<int>(moment)), last = std::max(last, static_cast<int>(moment));
  }

  const Graph& graph_;
  const std::vector<StageReport> stages_;
  std::set<std::string> names_;
  std::vector<std::string> block_;  // of each value
  std::map<std::string, std::pair<int, int>> uses_;
  std::map<std::string, std::size_t> sizes_;  // in f32
};

}  // namespace petaflow::testing_support
