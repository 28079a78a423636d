#include "nn/network_draft.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/element.hpp"
#include "base/error.hpp"
#include "nn/copy_stage.hpp"

namespace petaflow {

namespace {

class Drafter {
 public:
  Drafter(const Graph& graph, const std::vector<std::vector<StageParameter>>& parameters, const NetworkOptions& options)
      : graph_(graph), parameters_(parameters), options_(options) {}

  NetworkDraft draft() && {
    PETAFLOW_REQUIRE(kTakesFp16 || options_.precision != DType::kFp16, "a network in fp16 on the host");
    count_uses();
    values_.push_back({{"input", graph_.sample().with_batch(options_.batch), graph_.sample_type()}});
    values_.front().fixed = "it is the network's input";
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) lower_layer(i);
    NetworkDraft network;
    for (const GraphValue output : graph_.outputs())
      network.outputs.push_back(in_type(at_[output.index].value, DType::kF32, "output"));
    for (std::size_t i = 0; i < values_.size(); ++i) place(i);
    for (Planned& value : values_) network.values.push_back(std::move(value.value));
    network.stages = std::move(drafts_);
    return network;
  }

 private:
  // A value, and what is known of it until all are known.
  struct Planned {
    LoweredValue value;
    std::optional<std::size_t> host = std::nullopt;  // the concatenation that it is a part of
    std::int64_t channel = 0;                        // of the host, where it begins
    std::string fixed = "";                          // why it cannot become part of one; empty: it can
  };
  // Result that an operation gives to the next one: a stage in the making, or a value.
  struct Flow {
    std::unique_ptr<Fusion> open = nullptr;
    std::size_t value = 0;
  };

  void count_uses() {
    uses_.resize(graph_.values());
    at_.resize(graph_.values());
    for (const Graph::Node& node : graph_.nodes()) {
      for (const GraphValue value : node.inputs) ++uses_[value.index];
    }
    for (const Graph::Node& node : graph_.nodes()) {
      for (const GraphValue value : node.outputs) {
        if (uses_[value.index] == 0 && !is_output(value)) {
          user_error(
              "layer {}: nothing uses what it gives, and it is no output of the network; remove the layer, or mark its "
              "value as an output (Graph::mark_output)",
              node.name);
        }
      }
    }
  }

  bool is_output(GraphValue value) const {
    const auto outputs = graph_.outputs();
    return std::ranges::find(outputs, value) != outputs.end();
  }

  void lower_layer(std::size_t layer) {
    const Graph::Node& node = graph_.nodes()[layer];
    std::vector<Flow> flows;
    for (const GraphValue value : node.inputs) {
      Flow& from = at_[value.index];
      flows.push_back({std::move(from.open), from.value});
    }
    Lowering lowering;
    node.layer->lower(lowering);
    for (Operation& operation : lowering.operations()) flows = apply(operation, layer, std::move(flows));
    PETAFLOW_REQUIRE(flows.size() == node.outputs.size(), "layer {} gives {} values", node.name, flows.size());
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const GraphValue value = node.outputs[i];
      // A value that a single layer reads may become part of that one's stage.
      if (uses_[value.index] != 1 || is_output(value)) flows[i] = {nullptr, close(std::move(flows[i]))};
      if (is_output(value)) values_[flows[i].value].fixed = "it is an output of the network";
      at_[value.index] = std::move(flows[i]);
    }
  }

  std::vector<Flow> apply(Operation& operation, std::size_t layer, std::vector<Flow> flows) {
    const std::string& name = graph_.nodes()[layer].name;
    if (auto* own = std::get_if<StageOp>(&operation)) return bring(std::move(own->stage), layer, std::move(flows));
    std::vector<Flow> result(1);
    if (std::holds_alternative<ConcatOp>(operation)) {
      result[0].value = concatenate(layer, std::move(flows));
      return result;
    }
    if (std::holds_alternative<AddOp>(operation)) return add(operation, layer, std::move(flows));
    PETAFLOW_REQUIRE(flows.size() == 1, "layer {}: operation {} takes one value", name, name_of(operation));
    const bool conv = std::holds_alternative<ConvOp>(operation);
    const auto* norm = std::get_if<BatchNormOp>(&operation);
    if (norm != nullptr && !options_.backward && flows[0].open && flows[0].open->takes_norm()) {
      flows[0].open->norm = {*norm, layer};
    } else if (norm != nullptr) {
      std::size_t x = close(std::move(flows[0]));
      if (!is_rounded(values_[x].value.type)) x = in_type(x, DType::kF32, name);
      flows[0].open = start(x, values_[x].value.shape);
      flows[0].open->linear_layer = layer;
      flows[0].open->linear = *norm;
    } else if (conv || std::holds_alternative<DenseOp>(operation)) {
      std::size_t x = in_type(close(std::move(flows[0])), conv ? options_.precision : DType::kF32, name);
      if (!conv) x = whole_pixels(x, name);
      flows[0].open = start(x, graph_.nodes()[layer].output.with_batch(options_.batch));
      Fusion& fusion = *flows[0].open;
      fusion.linear_layer = layer;
      if (conv) {
        fusion.linear = std::get<ConvOp>(operation);
      } else {
        fusion.linear = std::get<DenseOp>(operation);
      }
    } else {
      const auto stand_alone = [&](std::size_t x) { return start(x, values_[x].value.shape); };
      if (!flows[0].open) flows[0].open = stand_alone(flows[0].value);
      if (!flows[0].open->take(operation, layer)) {
        flows[0].open = stand_alone(close(std::move(flows[0])));
        PETAFLOW_REQUIRE(flows[0].open->take(operation, layer), "operation {} of layer {} cannot stand alone",
                         name_of(operation), name);
      }
    }
    flows[0].open->note(operation, layer, name);
    return flows;
  }

  /// The sum of two values, one of which a stage in the making may take as a residual.
  std::vector<Flow> add(Operation& operation, std::size_t layer, std::vector<Flow> flows) {
    PETAFLOW_REQUIRE(flows.size() == 2, "a sum of {} values", flows.size());
    const auto takes = [](const Flow& flow) { return flow.open && flow.open->takes_residual(); };
    const std::size_t taker = takes(flows[1]) ? 1 : 0;
    if (takes(flows[taker])) {
      const std::size_t other = close(std::move(flows[1 - taker]));
      Fusion& fusion = *flows[taker].open;
      fusion.residual = in_type(other, fusion.epilogue.type, graph_.nodes()[layer].name);
      fusion.note(operation, layer, graph_.nodes()[layer].name);
      std::vector<Flow> result;
      result.push_back(std::move(flows[taker]));
      return result;
    }
    return bring(std::move(std::get<AddOp>(operation).otherwise), layer, std::move(flows));
  }

  std::unique_ptr<Fusion> start(std::size_t x, const Shape& v) const {
    auto fusion = std::make_unique<Fusion>();
    fusion->input = x;
    fusion->epilogue.v = fusion->epilogue.y = v;
    fusion->epilogue.type = values_[x].value.type;
    return fusion;
  }

  std::size_t new_value(const std::string& name, const Shape& shape, DType type, bool wants_gradient) {
    values_.push_back({{name, shape, type, wants_gradient}});
    return values_.size() - 1;
  }

  /// The value that a flow ends in.
  std::size_t close(Flow flow) {
    if (!flow.open) return flow.value;
    Fusion& fusion = *flow.open;
    const auto* norm = std::get_if<BatchNormOp>(&fusion.linear);
    const bool trains = norm != nullptr ? norm->options.affine : !std::holds_alternative<std::monostate>(fusion.linear);
    const std::string& name = graph_.nodes()[fusion.layers.front()].name;
    std::vector<std::size_t> inputs = {fusion.input};
    if (fusion.residual) inputs.push_back(*fusion.residual);
    const bool wants =
        trains || std::ranges::any_of(inputs, [&](std::size_t x) { return values_[x].value.wants_gradient; });
    const std::size_t y = new_value(name, fusion.epilogue.y, fusion.epilogue.type, wants);
    drafts_.push_back({{fusion.name, fusion.layers, std::move(inputs), {y}, nullptr}, std::move(flow.open)});
    return y;
  }

  /// The stage that a layer brings.
  std::vector<Flow> bring(std::unique_ptr<Stage> stage, std::size_t layer, std::vector<Flow> flows) {
    const Graph::Node& node = graph_.nodes()[layer];
    StageSetup setup{node.name, {}, parameters_[layer], options_};
    std::vector<std::size_t> inputs, outputs;
    bool wants = std::ranges::any_of(node.layer->parameters(node.input), &ParamSpec::trained);
    for (Flow& flow : flows) {
      std::size_t x = close(std::move(flow));
      if (is_rounded(values_[x].value.type) && !stage->takes_any_precision()) x = in_type(x, DType::kF32, node.name);
      if (!stage->takes_slices()) x = whole_pixels(x, node.name);
      wants = wants || values_[x].value.wants_gradient;
      setup.x.push_back(values_[x].value.shape);
      inputs.push_back(x);
    }
    stage->setup(setup);
    const DType type = stage->takes_any_precision() ? values_[inputs.front()].value.type : stage->output_type();
    std::vector<Flow> result;
    for (const GraphValue value : node.outputs) {
      const Shape shape = graph_.shape(value).with_batch(options_.batch);
      const std::string name = outputs.empty() ? node.name : fmt::format("{}:{}", node.name, outputs.size());
      const std::size_t y = new_value(name, shape, type, wants);
      if (!stage->takes_slices()) values_[y].fixed = fmt::format("{} gives whole pixels", node.name);
      outputs.push_back(y);
      result.push_back({nullptr, y});
    }
    drafts_.push_back(
        {{node.name, {layer}, std::move(inputs), std::move(outputs), nullptr}, nullptr, std::move(stage)});
    return result;
  }

  std::size_t copy(std::size_t x, const std::string& name, DType type, const std::string& reason) {
    const LoweredValue from = values_[x].value;
    const std::size_t y = new_value(name, from.shape, type, from.wants_gradient);
    drafts_.push_back({{name, {}, {x}, {y}, nullptr}, nullptr, std::make_unique<CopyStage>(name, reason)});
    return y;
  }

  /// The value x as numbers of this type.
  std::size_t in_type(std::size_t x, DType type, const std::string& reader) {
    const LoweredValue& from = values_[x].value;
    if (from.type == type) return x;
    PETAFLOW_REQUIRE(from.type != DType::kI16, "{} reads whole numbers", reader);
    if (const auto found = converted_.find(x); found != converted_.end()) return found->second;
    return converted_[x] = copy(x, fmt::format("to {} for {}", petaflow::name_of(type), reader), type, "");
  }

  /// The value x in memory of its own.
  std::size_t whole_pixels(std::size_t x, const std::string& reader) {
    if (!values_[x].host) {
      if (values_[x].fixed.empty()) values_[x].fixed = fmt::format("{} takes whole pixels", reader);
      return x;
    }
    if (const auto found = whole_.find(x); found != whole_.end()) return found->second;
    const LoweredValue& from = values_[x].value;
    const std::string name = fmt::format("copy of {} for {}", from.name, reader);
    return whole_[x] = copy(x, name, from.type, fmt::format("{}: {} takes whole pixels", name, reader));
  }

  std::size_t concatenate(std::size_t layer, std::vector<Flow> flows) {
    const Graph::Node& node = graph_.nodes()[layer];
    std::vector<std::size_t> parts;
    for (Flow& flow : flows) parts.push_back(close(std::move(flow)));
    DType type = DType::kF32;
    for (const std::size_t part : parts) {
      if (values_[part].value.type == DType::kI16)
        user_error("layer {}: whole numbers cannot be concatenated", node.name);
      if (is_rounded(values_[part].value.type)) type = values_[part].value.type;
    }
    const std::size_t y = new_value(node.name, node.output.with_batch(options_.batch), type, false);
    std::int64_t channel = 0;
    for (std::size_t part : parts) {
      const LoweredValue from = values_[part].value;
      std::string reason = values_[part].fixed;
      if (reason.empty() && values_[part].host) {
        reason = fmt::format("it lies in {}", values_[*values_[part].host].value.name);
      }
      if (from.type != type || !reason.empty()) {
        const std::string name = fmt::format("copy of {} for {}", from.name, node.name);
        part = copy(part, name, type, reason.empty() ? "" : fmt::format("{}: {}", name, reason));
      }
      values_[part].host = y;
      values_[part].channel = channel;
      channel += from.shape.c;
      values_[y].value.wants_gradient = values_[y].value.wants_gradient || from.wants_gradient;
    }
    return y;
  }

  /// Where a value lies: in its host, or that one's host.
  void place(std::size_t index) {
    LoweredValue& value = values_[index].value;
    for (value.root = index; values_[value.root].host; value.root = *values_[value.root].host) {
      value.channel += values_[value.root].channel;
    }
  }

  const Graph& graph_;
  const std::vector<std::vector<StageParameter>>& parameters_;
  const NetworkOptions& options_;
  std::vector<int> uses_;  // of the graph's values
  std::vector<Flow> at_;   // where they are
  std::vector<Planned> values_;
  std::vector<StageDraft> drafts_;
  std::map<std::size_t, std::size_t> converted_, whole_;  // copies of values in the other type, in memory of their own
};

}  // namespace

NetworkDraft draft_network(const Graph& graph, const std::vector<std::vector<StageParameter>>& parameters,
                           const NetworkOptions& options) {
  return Drafter(graph, parameters, options).draft();
}

}  // namespace petaflow
