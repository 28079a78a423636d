// Layers become stages in two steps.  First all values are found (network_draft.hpp).  Then the stages are made, whose
// kernels need to know the strides of their operands.
#include "nn/lowering.hpp"

#include <optional>

#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "nn/conv_stage.hpp"
#include "nn/conv_tuning.hpp"
#include "nn/dense_stage.hpp"
#include "nn/epilogue_stage.hpp"
#include "nn/network_draft.hpp"

namespace petaflow {

namespace {

class StageMaker {
 public:
  StageMaker(const Graph& graph, const std::vector<std::vector<StageParameter>>& parameters,
             const NetworkOptions& options)
      : graph_(graph),
        parameters_(parameters),
        options_(options),
        network_(draft_network(graph, parameters, options)) {}

  LoweredNetwork make_all(const Context& context, ConvTuning* tuning) && {
    LoweredNetwork network;
    for (StageDraft& draft : network_.stages)
      network.stages.push_back(make_in_memory(std::move(draft), context, tuning));
    network.values = std::move(network_.values);
    network.outputs = std::move(network_.outputs);
    return network;
  }

  std::vector<LoweredConvolution> convolutions() const {
    std::vector<LoweredConvolution> found;
    for (const StageDraft& draft : network_.stages) {
      if (!draft.fusion || !std::holds_alternative<ConvOp>(draft.fusion->linear)) continue;
      const auto& op = std::get<ConvOp>(draft.fusion->linear);
      found.push_back({draft.lowered.name, describe_conv(*draft.fusion), op.role,
                       network_.values[draft.fusion->input].wants_gradient});
    }
    return found;
  }

 private:
  /// Names the layer whose kernels do not fit into memory.
  LoweredStage make_in_memory(StageDraft draft, const Context& context, ConvTuning* tuning) {
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

  LoweredStage make(StageDraft draft, const Context& context, ConvTuning* tuning) {
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
    const LoweredValue& x = network_.values[fusion.input];
    lowered.forward_flop = node.layer->cost(x.shape).flop;
    lowered.stage = std::holds_alternative<ConvOp>(fusion.linear)
                        ? make_conv(fusion, lowered.outputs.front(), context, tuning)
                        : make_dense(fusion, context);
    return lowered;
  }

  ConvDesc describe_conv(const Fusion& fusion) const {
    const auto& op = std::get<ConvOp>(fusion.linear);
    const LoweredValue& x = network_.values[fusion.input];
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
    if (x.type == DType::kF32) desc.products = options_.kernels.f32;
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
                             .wants_dx = network_.values[fusion.input].wants_gradient,
                             .fixed_order = options_.fixed_order,
                             .kernels = {kernels, kernels, kernels},
                             .role = op.role,
                             .gain = op.gain,
                             .residual = fusion.residual.has_value(),
                             .y_is_slice = pixel_stride(y) != network_.values[y].shape.c,
                             .norm = norm_of(fusion)};
    if (kernels.conv.rule == ConvRequest::Rule::kTune) {
      PETAFLOW_REQUIRE(tuning != nullptr, "a network is to be tuned, but nothing was given to tune it with");
      tuning->tune(stage, context);
    }
    return std::make_unique<ConvStage>(stage, context);
  }

  std::unique_ptr<Stage> make_dense(const Fusion& fusion, const Context& context) const {
    const LoweredValue& x = network_.values[fusion.input];
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

  std::int64_t pixel_stride(std::size_t value) const { return network_.values[network_.values[value].root].shape.c; }

  const Graph& graph_;
  const std::vector<std::vector<StageParameter>>& parameters_;
  const NetworkOptions& options_;
  NetworkDraft network_;
};

}  // namespace

LoweredNetwork lower(const Graph& graph, const std::vector<std::vector<StageParameter>>& parameters,
                     const NetworkOptions& options, const Context& context, ConvTuning* tuning) {
  return StageMaker(graph, parameters, options).make_all(context, tuning);
}

std::vector<LoweredConvolution> lowered_convolutions(const Graph& graph,
                                                     const std::vector<std::vector<StageParameter>>& parameters,
                                                     const NetworkOptions& options) {
  return StageMaker(graph, parameters, options).convolutions();
}

}  // namespace petaflow
