#include "nn/lowering.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "nn/conv_stage.hpp"
#include "nn/conv_tuning.hpp"
#include "nn/convert_stage.hpp"
#include "nn/dense_stage.hpp"
#include "nn/epilogue_stage.hpp"

namespace petaflow {

namespace {

// A stage in the making: a linear operation or none, and the epilogue collected so far.
struct Fusion {
  const Lowering::Entry* linear = nullptr;  // ConvOp or DenseOp
  EpilogueDesc epilogue;
  bool started = false;
  std::vector<std::size_t> layers;
  std::string name;
  Shape input;  // with the batch

  // Takes an operation into the epilogue; false where it cannot follow what is there already.
  bool take(const Operation& operation, int layer) {
    if (epilogue.dropout > 0) return false;
    if (std::holds_alternative<BiasOp>(operation)) {
      if (linear == nullptr || epilogue.bias || epilogue.activation || epilogue.pool.kind != PoolKind::kNone)
        return false;
      epilogue.bias = true;
    } else if (const auto* pool = std::get_if<PoolOp>(&operation)) {
      // Activation and average do not commute the other way round; a maximum commutes with any monotone function.
      if (epilogue.pool.kind != PoolKind::kNone) return false;
      epilogue.pool = pool->geometry;
      if (epilogue.pool.window.volume() == 0) {  // global
        epilogue.pool.window = epilogue.v.extent();
        epilogue.pool.stride = epilogue.v.extent();
      }
      const Extent out = epilogue.pool.output(epilogue.v.extent());
      epilogue.y = {epilogue.v.n, epilogue.v.c, out.d, out.h, out.w};
    } else if (const auto* activation = std::get_if<ActivationOp>(&operation)) {
      if (epilogue.activation || epilogue.pool.kind == PoolKind::kAverage) return false;
      epilogue.activation = true;
      epilogue.negative_slope = activation->negative_slope;
    } else if (const auto* dropout = std::get_if<DropoutOp>(&operation)) {
      epilogue.dropout = dropout->probability;
      epilogue.layer = layer;
    } else {
      return false;
    }
    return true;
  }
};

const char* name_of(const Operation& operation) {
  if (const auto* pool = std::get_if<PoolOp>(&operation))
    return pool->geometry.kind == PoolKind::kMax ? "max pool" : "average pool";
  if (const auto* activation = std::get_if<ActivationOp>(&operation))
    return activation->negative_slope > 0 ? "leaky relu" : "relu";
  if (std::holds_alternative<DropoutOp>(operation)) return "dropout";
  return "";
}

class Builder {
 public:
  Builder(const Graph& graph, const std::vector<StageParameter>& parameters, const NetworkOptions& options,
          const Context& context)
      : graph_(graph),
        parameters_(parameters),
        options_(options),
        context_(context),
        shape_(graph.sample().with_batch(options.batch)),
        type_(graph.sample_type()) {}

  std::vector<LoweredStage> build() {
    Lowering lowering;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      lowering.begin_layer(i);
      graph_.nodes()[i].layer->lower(lowering);
    }
    for (Lowering::Entry& entry : lowering.entries()) add(entry);
    finish();
    convert(DType::kF32, "output");
    return std::move(stages_);
  }

 private:
  void add(Lowering::Entry& entry) {
    const Graph::Node& node = graph_.nodes()[entry.layer];
    const int layer = static_cast<int>(entry.layer);
    if (std::holds_alternative<ConvOp>(entry.operation) || std::holds_alternative<DenseOp>(entry.operation)) {
      finish();
      start(node.output.with_batch(options_.batch));
      fusion_.linear = &entry;
    } else if (auto* own = std::get_if<StageOp>(&entry.operation)) {
      finish();
      if (type_ == DType::kBf16) convert(DType::kF32, node.name);
      const Shape out = node.output.with_batch(options_.batch);
      StageSetup setup{node.name, shape_, {}, options_};
      const std::vector<ParamSpec> specs = node.layer->parameters(node.input);
      for (const ParamSpec& spec : specs) setup.parameters.push_back(*parameter(entry.layer, spec.name));
      own->stage->setup(setup, context_);
      const DType type = own->stage->output_type();
      emit({node.name, {entry.layer}, shape_, out, type, std::move(own->stage), 0, seen_parameters_});
      seen_parameters_ = seen_parameters_ || std::ranges::any_of(specs, &ParamSpec::trained);
      return;
    } else {
      if (!fusion_.started) start(shape_);
      if (!fusion_.take(entry.operation, layer)) {
        finish();
        start(shape_);
        PETAFLOW_REQUIRE(fusion_.take(entry.operation, layer), "operation {} of layer {} cannot stand alone",
                         name_of(entry.operation), node.name);
      }
    }
    note(entry.layer, node.name, name_of(entry.operation));
  }

  void start(const Shape& v) {
    fusion_ = Fusion{};
    fusion_.started = true;
    fusion_.input = shape_;
    fusion_.epilogue.v = fusion_.epilogue.y = v;
  }

  void note(std::size_t layer, const std::string& layer_name, std::string_view operation) {
    if (fusion_.layers.empty() || fusion_.layers.back() != layer) fusion_.layers.push_back(layer);
    if (fusion_.name.empty()) {
      fusion_.name = layer_name;
    } else if (!operation.empty()) {
      fusion_.name += fmt::format(" + {}", operation);
    }
  }

  std::optional<StageParameter> parameter(std::size_t layer, std::string_view name) const {
    const std::string full = fmt::format("{}/{}", graph_.nodes()[layer].name, name);
    const auto found =
        std::find_if(parameters_.begin(), parameters_.end(), [&](const StageParameter& p) { return p.name == full; });
    return found == parameters_.end() ? std::nullopt : std::optional<StageParameter>(*found);
  }

  void finish() {
    if (!fusion_.started) return;
    if (fusion_.linear != nullptr) {
      const bool conv = std::holds_alternative<ConvOp>(fusion_.linear->operation);
      convert(conv ? options_.precision : DType::kF32, fusion_.name);
    }
    fusion_.epilogue.type = type_;
    LoweredStage lowered{fusion_.name,    fusion_.layers, fusion_.input, fusion_.epilogue.y, type_, nullptr, 0,
                         seen_parameters_};
    if (fusion_.linear == nullptr) {
      lowered.stage = std::make_unique<EpilogueStage>(fusion_.name, fusion_.epilogue, options_.backward);
    } else {
      const std::size_t layer = fusion_.linear->layer;
      const Graph::Node& node = graph_.nodes()[layer];
      const StageParameter weight = *parameter(layer, "weight");
      const auto bias = fusion_.epilogue.bias ? parameter(layer, "bias") : std::nullopt;
      lowered.forward_flop = node.layer->cost(fusion_.input).flop;
      if (const auto* conv = std::get_if<ConvOp>(&fusion_.linear->operation)) {
        ConvDesc desc;
        desc.n = options_.batch;
        desc.in_channels = fusion_.input.c;
        desc.out_channels = conv->out_channels;
        desc.in = fusion_.input.extent();
        desc.out = fusion_.epilogue.v.extent();
        desc.geometry = conv->geometry;
        desc.x_strides = Strides::of(desc.in, desc.in_channels);
        desc.y_strides = Strides::of(desc.out, desc.out_channels);
        desc.type = type_;
        desc.split = type_ == DType::kF32 && options_.kernels.f32 == "split3";
        const KernelOptions& kernels = options_.kernels;
        ConvStage::Options stage{node.name,
                                 desc,
                                 fusion_.epilogue,
                                 weight,
                                 bias,
                                 options_.backward,
                                 seen_parameters_,
                                 options_.fixed_order,
                                 {kernels, kernels, kernels}};
        if (kernels.conv == "tune") {
          PETAFLOW_REQUIRE(kernels.tuning != nullptr,
                           "a network is to be tuned, but nothing was given to tune it with");
          kernels.tuning->tune(stage, context_);
        }
        lowered.stage = std::make_unique<ConvStage>(stage, context_);
      } else {
        lowered.stage = std::make_unique<DenseStage>(
            DenseStage::Options{node.name, fusion_.input, fusion_.epilogue, weight, bias, options_.backward,
                                seen_parameters_, options_.fixed_order, options_.kernels},
            context_);
      }
      seen_parameters_ = true;
    }
    emit(std::move(lowered));
    fusion_ = Fusion{};
  }

  // What the stage `reader` reads must be of this type.
  void convert(DType type, const std::string& reader) {
    if (type_ == type) return;
    PETAFLOW_REQUIRE(type_ != DType::kI16, "{} reads whole numbers", reader);
    const std::string name = fmt::format("to {} for {}", name_of(type), reader);
    emit({name, {}, shape_, shape_, type, std::make_unique<ConvertStage>(name), 0, seen_parameters_});
  }

  void emit(LoweredStage stage) {
    shape_ = stage.output;
    type_ = stage.type;
    stages_.push_back(std::move(stage));
  }

  const Graph& graph_;
  const std::vector<StageParameter>& parameters_;
  const NetworkOptions& options_;
  const Context& context_;
  Shape shape_;  // what the next operation reads
  DType type_;
  bool seen_parameters_ = false;  // an earlier stage has parameters to train, so gradients must reach it
  Fusion fusion_;
  std::vector<LoweredStage> stages_;
};

}  // namespace

std::vector<LoweredStage> lower(const Graph& graph, const std::vector<StageParameter>& parameters,
                                const NetworkOptions& options, const Context& context) {
  return Builder(graph, parameters, options, context).build();
}

}  // namespace petaflow
