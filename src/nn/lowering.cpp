// Layers become stages in two steps.  First all values are found: which operations run as one stage, which values they
// pass on, and where concatenations let values lie in one memory.  Then the stages are made, whose kernels need to know
// the strides of their operands.
#include "nn/lowering.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "nn/conv_stage.hpp"
#include "nn/conv_tuning.hpp"
#include "nn/copy_stage.hpp"
#include "nn/dense_stage.hpp"
#include "nn/epilogue_stage.hpp"
#include "nn/fusion.hpp"

namespace petaflow {

namespace {

class Builder {
 public:
  /// Finds all values.
  Builder(const Graph& graph, const std::vector<std::vector<StageParameter>>& parameters, const NetworkOptions& options)
      : graph_(graph), parameters_(parameters), options_(options) {
    count_uses();
    values_.push_back({{"input", graph_.sample().with_batch(options_.batch), graph_.sample_type()}});
    values_.front().fixed = "it is the network's input";
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) lower_layer(i);
    for (const GraphValue output : graph_.outputs())
      outputs_.push_back(in_type(at_[output.index].value, DType::kF32, "output"));
    for (std::size_t i = 0; i < values_.size(); ++i) place(i);
  }

  LoweredNetwork build(const Context& context, ConvTuning* tuning) && {
    LoweredNetwork network;
    network.outputs = std::move(outputs_);
    for (Draft& draft : drafts_) network.stages.push_back(make_in_memory(std::move(draft), context, tuning));
    for (Planned& value : values_) network.values.push_back(std::move(value.value));
    return network;
  }

  std::vector<LoweredConvolution> convolutions() const {
    std::vector<LoweredConvolution> found;
    for (const Draft& draft : drafts_) {
      if (!draft.fusion || !std::holds_alternative<ConvOp>(draft.fusion->linear)) continue;
      const auto& op = std::get<ConvOp>(draft.fusion->linear);
      found.push_back({draft.lowered.name, describe_conv(*draft.fusion), op.role,
                       values_[draft.fusion->input].value.wants_gradient});
    }
    return found;
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
  // A stage of which the values are known: made from `fusion`, or `own`.
  struct Draft {
    LoweredStage lowered;
    std::unique_ptr<Fusion> fusion = nullptr;
    std::unique_ptr<Stage> own = nullptr;  // that a layer brings, or a copy
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
      if (values_[x].value.type != DType::kBf16) x = in_type(x, DType::kF32, name);
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
      if (values_[x].value.type == DType::kBf16 && !stage->takes_bf16()) x = in_type(x, DType::kF32, node.name);
      if (!stage->takes_slices()) x = whole_pixels(x, node.name);
      wants = wants || values_[x].value.wants_gradient;
      setup.x.push_back(values_[x].value.shape);
      inputs.push_back(x);
    }
    stage->setup(setup);
    const DType type = stage->takes_bf16() ? values_[inputs.front()].value.type : stage->output_type();
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
    const auto is = [&](DType type) {
      return std::ranges::any_of(parts, [&](std::size_t part) { return values_[part].value.type == type; });
    };
    if (is(DType::kI16)) user_error("layer {}: whole numbers cannot be concatenated", node.name);
    const DType type = is(DType::kBf16) ? DType::kBf16 : DType::kF32;
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
  std::int64_t pixel_stride(std::size_t value) const { return values_[values_[value].value.root].value.shape.c; }

  /// Names the layer whose kernels do not fit into memory.
  LoweredStage make_in_memory(Draft draft, const Context& context, ConvTuning* tuning) {
    const std::vector<std::size_t>& layers = draft.lowered.layers;
    const std::string name = layers.empty() ? draft.lowered.name : graph_.nodes()[layers.front()].name;
    try {
      return make(std::move(draft), context, tuning);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      const std::string text = out_of_memory_text(error);
      if (text.empty()) throw;
      user_error("layer {}: {}; make the layer smaller, or train.batch", name, text);
    }
  }

  LoweredStage make(Draft draft, const Context& context, ConvTuning* tuning) {
    LoweredStage lowered = std::move(draft.lowered);
    if (draft.own) {
      lowered.stage = std::move(draft.own);
      return lowered;
    }
    const Fusion& fusion = *draft.fusion;
    if (std::holds_alternative<std::monostate>(fusion.linear)) {
      lowered.stage = std::make_unique<EpilogueStage>(fusion.name, fusion.epilogue, options_.backward);
      return lowered;
    }
    if (const auto* norm = std::get_if<BatchNormOp>(&fusion.linear)) {
      lowered.stage = make_batch_norm(fusion, norm->options, context);
      return lowered;
    }
    const Graph::Node& node = graph_.nodes()[fusion.linear_layer];
    const LoweredValue& x = values_[fusion.input].value;
    lowered.forward_flop = node.layer->cost(x.shape).flop;
    lowered.stage = std::holds_alternative<ConvOp>(fusion.linear)
                        ? make_conv(fusion, lowered.outputs.front(), context, tuning)
                        : make_dense(fusion, context);
    return lowered;
  }

  ConvDesc describe_conv(const Fusion& fusion) const {
    const auto& op = std::get<ConvOp>(fusion.linear);
    const LoweredValue& x = values_[fusion.input].value;
    ConvDesc desc;
    desc.n = options_.batch;
    desc.in_channels = x.shape.c;
    desc.out_channels = op.out_channels;
    desc.in = x.shape.extent();
    desc.out = fusion.epilogue.v.extent();
    desc.geometry = op.geometry;
    desc.x_strides = Strides::of(desc.in, pixel_stride(fusion.input));
    desc.y_strides = Strides::of(desc.out, desc.out_channels);
    desc.x_channel = x.channel;
    if (op.role == ConvRole::kTransposed) {
      std::swap(desc.in_channels, desc.out_channels);
      std::swap(desc.in, desc.out);
      std::swap(desc.x_strides, desc.y_strides);
      std::swap(desc.x_channel, desc.y_channel);
    }
    desc.type = x.type;
    desc.split = x.type == DType::kF32 && options_.kernels.f32 == F32Products::kSplit3;
    return desc;
  }

  std::unique_ptr<Stage> make_conv(const Fusion& fusion, std::size_t y, const Context& context,
                                   ConvTuning* tuning) const {
    const auto& op = std::get<ConvOp>(fusion.linear);
    const ConvPassOptions kernels{options_.kernels.conv, options_.kernels.tiles, options_.kernels.cache_share};
    ConvStage::Options stage{.name = graph_.nodes()[fusion.linear_layer].name,
                             .conv = describe_conv(fusion),
                             .epilogue = fusion.epilogue,
                             .weight = *parameter(fusion.linear_layer, ParamRole::kWeight),
                             .bias = bias_of(fusion),
                             .backward = options_.backward,
                             .wants_dx = values_[fusion.input].value.wants_gradient,
                             .fixed_order = options_.fixed_order,
                             .kernels = {kernels, kernels, kernels},
                             .role = op.role,
                             .gain = op.gain,
                             .residual = fusion.residual.has_value(),
                             .y_is_slice = pixel_stride(y) != values_[y].value.shape.c,
                             .norm = norm_of(fusion)};
    if (kernels.conv.rule == ConvRequest::Rule::kTune) {
      PETAFLOW_REQUIRE(tuning != nullptr, "a network is to be tuned, but nothing was given to tune it with");
      tuning->tune(stage, context);
    }
    return std::make_unique<ConvStage>(stage, context);
  }

  std::unique_ptr<Stage> make_dense(const Fusion& fusion, const Context& context) const {
    const LoweredValue& x = values_[fusion.input].value;
    const DenseStage::Options stage{.name = graph_.nodes()[fusion.linear_layer].name,
                                    .x = x.shape,
                                    .epilogue = fusion.epilogue,
                                    .weight = *parameter(fusion.linear_layer, ParamRole::kWeight),
                                    .bias = bias_of(fusion),
                                    .backward = options_.backward,
                                    .wants_dx = x.wants_gradient,
                                    .fixed_order = options_.fixed_order,
                                    .gemm = options_.kernels.gemm};
    return std::make_unique<DenseStage>(stage, context);
  }

  std::unique_ptr<Stage> make_batch_norm(const Fusion& fusion, const BatchNormOptions& options,
                                         const Context& context) const {
    const std::size_t layer = fusion.linear_layer;
    const BatchNormStage::Options stage{.name = graph_.nodes()[layer].name,
                                        .epilogue = fusion.epilogue,
                                        .batch_norm = options,
                                        .weight = parameter(layer, ParamRole::kWeight),
                                        .bias = parameter(layer, ParamRole::kBias),
                                        .running_mean = *parameter(layer, ParamRole::kRunningMean),
                                        .running_variance = *parameter(layer, ParamRole::kRunningVariance),
                                        .residual = fusion.residual.has_value(),
                                        .backward = options_.backward,
                                        .fixed_order = options_.fixed_order};
    return std::make_unique<BatchNormStage>(stage, context);
  }

  std::optional<StageParameter> parameter(std::size_t layer, ParamRole role) const {
    const Graph::Node& node = graph_.nodes()[layer];
    const std::vector<ParamSpec> specs = node.layer->parameters(node.input);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].role == role) return parameters_[layer][i];
    }
    return std::nullopt;
  }
  std::optional<StageParameter> bias_of(const Fusion& fusion) const {
    return fusion.epilogue.bias ? parameter(fusion.linear_layer, ParamRole::kBias) : std::nullopt;
  }

  std::optional<RunningNorm> norm_of(const Fusion& fusion) const {
    if (!fusion.norm) return std::nullopt;
    const std::size_t layer = fusion.norm->layer;
    return RunningNorm{.weight = parameter(layer, ParamRole::kWeight),
                       .bias = parameter(layer, ParamRole::kBias),
                       .mean = *parameter(layer, ParamRole::kRunningMean),
                       .variance = *parameter(layer, ParamRole::kRunningVariance),
                       .epsilon = fusion.norm->op.options.epsilon};
  }

  const Graph& graph_;
  const std::vector<std::vector<StageParameter>>& parameters_;
  const NetworkOptions& options_;
  std::vector<int> uses_;  // of the graph's values
  std::vector<Flow> at_;   // where they are
  std::vector<Planned> values_;
  std::vector<Draft> drafts_;
  std::vector<std::size_t> outputs_;
  std::map<std::size_t, std::size_t> converted_, whole_;  // copies of values in the other type, in memory of their own
};

}  // namespace

LoweredNetwork lower(const Graph& graph, const std::vector<std::vector<StageParameter>>& parameters,
                     const NetworkOptions& options, const Context& context, ConvTuning* tuning) {
  return Builder(graph, parameters, options).build(context, tuning);
}

std::vector<LoweredConvolution> lowered_convolutions(const Graph& graph,
                                                     const std::vector<std::vector<StageParameter>>& parameters,
                                                     const NetworkOptions& options) {
  return Builder(graph, parameters, options).convolutions();
}

}  // namespace petaflow
