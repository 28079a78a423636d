#include "nn/network.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>

#include "base/error.hpp"
#include "nn/lowering.hpp"
#include "nn/parallel.hpp"

namespace petaflow {

namespace {

class Stopwatch {
 public:
  Stopwatch(const Context& context, double& total) : context_(context), total_(total) {}
  ~Stopwatch() {
    if constexpr (!kOnHost) context_.space.fence();
    total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const Context& context_;
  double& total_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::vector<Parameter> list_parameters(const Graph& graph) {
  std::vector<Parameter> parameters;
  std::int64_t offset = 0;
  for (const Graph::Node& node : graph.nodes()) {
    for (ParamSpec& spec : node.layer->parameters(node.input)) {
      const std::int64_t elements = spec.elements();
      parameters.push_back({fmt::format("{}/{}", node.name, spec.name), std::move(spec), offset});
      offset += elements;
    }
  }
  return parameters;
}

// The blocks of the arena: persistent ones, then per stage what lives between its forward and backward moments.
// Moment i is the forward pass of stage i, moment 2 S - 1 - i its backward pass.
class BlockList {
 public:
  std::size_t add(std::string label, std::size_t size_bytes, int first, int last) {
    blocks_.push_back({std::move(label), size_bytes, first, last, 0});
    return blocks_.size() - 1;
  }
  std::size_t add_persistent(std::string label, std::size_t size_bytes) {
    return add(std::move(label), size_bytes, kForever, INT_MAX);
  }
  std::vector<MemoryBlock> take() { return std::move(blocks_); }

 private:
  std::vector<MemoryBlock> blocks_;
};

std::size_t bytes_of(const Shape& shape, DType type) {
  return static_cast<std::size_t>(shape.elements()) * size_of(type);
}

}  // namespace

Network::Network(const Graph& graph, const NetworkOptions& options, const Context& context)
    : options_(options), parameters_(list_parameters(graph)) {
  if (graph.nodes().empty()) user_error("a network needs at least one layer");
  if (!parameters_.empty()) parameter_elements_ = parameters_.back().offset + parameters_.back().spec.elements();
  std::vector<StageParameter> stage_parameters;
  BlockList blocks;
  const std::size_t weights_block = blocks.add_persistent(
      "weights", static_cast<std::size_t>(std::max<std::int64_t>(1, parameter_elements_)) * sizeof(float));

  for (const Parameter& p : parameters_) stage_parameters.push_back({p.name, p.offset});
  std::vector<LoweredStage> lowered = lower(graph, stage_parameters, options, context);
  const auto count = static_cast<int>(lowered.size());
  const auto end = 2 * count - 1;

  struct StageBlocks {
    std::size_t y = 0, dy = 0, saved = 0, forward_scratch = 0, backward_scratch = 0;
    bool has_dy = false;
  };
  std::vector<StageBlocks> of(lowered.size());
  const std::size_t input = blocks.add_persistent("input", bytes_of(lowered.front().input, graph.sample_type()));
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const LoweredStage& stage = lowered[index];
    const bool last = i + 1 == count;
    const int backward = end - i;
    // y is read by the next stage, forward and perhaps backward; the last one is the network's output.
    const bool keep = options.backward && !last && lowered[index + 1].stage->backward_needs_input();
    const auto label = [&](const char* what) {
      return fmt::format("{} {}", stage.layers.empty() ? stage.name : graph.nodes()[stage.layers.front()].name, what);
    };
    const std::size_t y_bytes = bytes_of(stage.output, stage.type);
    of[index].y = last ? blocks.add_persistent(label("output"), y_bytes)
                       : blocks.add(label("output"), y_bytes, i, keep ? backward - 1 : i + 1);
    of[index].forward_scratch = blocks.add(label("forward scratch"), stage.stage->forward_scratch_bytes(), i, i);
    if (!options.backward) continue;
    of[index].saved = blocks.add(label("saved"), stage.stage->saved_bytes(), i, backward);
    of[index].has_dy = last || lowered[index + 1].wants_dx;
    of[index].dy = last ? blocks.add_persistent(label("output gradient"), y_bytes)
                        : blocks.add(label("output gradient"), of[index].has_dy ? y_bytes : 0, backward - 1, backward);
    of[index].backward_scratch =
        blocks.add(label("backward scratch"), stage.stage->backward_scratch_bytes(), backward, backward);
  }
  arena_ = Arena(blocks.take(), options.runs);
  weights_ = reinterpret_cast<float*>(arena_.block(weights_block));
  input_ = Tensor::dense(lowered.front().input, graph.sample_type(), arena_.block(input));

  Tensor x = input_, dx;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(i);
    LoweredStage& stage = lowered[index];
    StageBuffers& buffers = stage.stage->buffers;
    buffers.x = {x};
    buffers.y = {Tensor::dense(stage.output, stage.type, arena_.block(of[index].y))};
    buffers.dx = buffers.dy = {Tensor{}};
    buffers.adds = {false};
    buffers.forward_scratch = arena_.block(of[index].forward_scratch);
    if (options.backward) {
      buffers.dx = {stage.wants_dx ? dx : Tensor{}};
      if (of[index].has_dy) buffers.dy[0] = Tensor::dense(stage.output, stage.type, arena_.block(of[index].dy));
      buffers.saved = arena_.block(of[index].saved);
      buffers.backward_scratch = arena_.block(of[index].backward_scratch);
    }
    x = buffers.y[0];
    dx = buffers.dy[0];
    buffers.weights = weights_;

    StageReport report;
    report.name = stage.name;
    for (const std::size_t layer : stage.layers) report.layers.push_back(graph.nodes()[layer].name);
    report.input = stage.input;
    report.output = stage.output;
    report.forward = stage.stage->describe_forward();
    report.backward_data = stage.wants_dx && options.backward ? stage.stage->describe_backward_data() : "-";
    report.backward_weights = options.backward ? stage.stage->describe_backward_weights() : "-";
    report.refusals = stage.stage->refusals();
    report.kind = stage.stage->kind();
    report.forward_flop = stage.forward_flop;
    report.backward_flop = options.backward ? stage.forward_flop * (stage.wants_dx ? 2 : 1) : 0;
    report.saved_bytes = options.backward ? stage.stage->saved_bytes() : 0;
    report.scratch_bytes = std::max(stage.stage->forward_scratch_bytes(), stage.stage->backward_scratch_bytes());
    reports_.push_back(std::move(report));
    stages_.push_back(std::move(stage.stage));
  }
  output_ = x;
  output_gradient_ = dx;

  gradient_begin_.resize(stages_.size());
  std::int64_t begin = parameter_elements_;
  for (std::size_t i = stages_.size(); i-- > 0;) {
    for (const Parameter& p : parameters_) {
      const std::string layer = p.name.substr(0, p.name.find('/'));
      if (std::ranges::find(reports_[i].layers, layer) != reports_[i].layers.end()) begin = std::min(begin, p.offset);
    }
    gradient_begin_[i] = begin;
  }
}

Network::~Network() = default;

std::int64_t Network::trained_elements() const {
  std::int64_t sum = 0;
  for (const Parameter& p : parameters_) sum += p.spec.trained() ? p.spec.elements() : 0;
  return sum;
}

void Network::initialise(const Context& context, std::uint64_t seed) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ParamSpec& spec = parameters_[i].spec;
    const RandomStream stream = random_stream(seed, RandomPurpose::kInit, i);
    std::vector<float> values(static_cast<std::size_t>(spec.elements()), static_cast<float>(spec.init_mean));
    for (std::size_t element = 0; element < values.size() && spec.init_std > 0; ++element) {
      RandomSequence random(stream, element);
      const double unit =  // of variance 1
          spec.distribution == Distribution::kUniform ? std::sqrt(12.0) * (random.uniform() - 0.5) : random.normal();
      values[element] = static_cast<float>(spec.init_mean + spec.init_std * unit);
    }
    const Kokkos::View<float*, MemorySpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>> target(
        weights_ + parameters_[i].offset, values.size());
    const Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>> source(values.data(),
                                                                                                        values.size());
    Kokkos::deep_copy(context.space, target, source);
    context.space.fence();
  }
  refresh(context);
}

void Network::refresh(const Context& context) {
  for (const auto& stage : stages_) stage->refresh(context);
}

void Network::forward(const Context& context) {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    double other_s = 0;  // of predictions
    const Stopwatch watch(context, context.training ? reports_[i].forward_s : other_s);
    arena_.enter(static_cast<int>(i));
    stages_[i]->forward(context);
  }
}

void Network::backward(const Context& context, float* gradient,
                       const std::function<void(std::int64_t, std::int64_t)>& ready) {
  PETAFLOW_REQUIRE(options_.backward, "a network made for inference");
  std::int64_t end = parameter_elements_;
  for (std::size_t i = stages_.size(); i-- > 0;) {
    {
      const Stopwatch watch(context, reports_[i].backward_s);
      arena_.enter(static_cast<int>(2 * stages_.size() - 1 - i));
      stages_[i]->backward(context, gradient);
    }
    if (ready && gradient_begin_[i] < end) ready(gradient_begin_[i], end);
    end = gradient_begin_[i];
  }
}

std::vector<Network::RankSum> Network::rank_sums() const {
  std::vector<RankSum> sums;
  for (const auto& stage : stages_) {
    if (stage->forward_rank_sum() > 0) sums.push_back({stage->forward_rank_sum(), parameter_elements_});
  }
  for (std::size_t i = stages_.size(); i-- > 0;) {
    const std::int64_t final_from = i + 1 < stages_.size() ? gradient_begin_[i + 1] : parameter_elements_;
    if (stages_[i]->backward_rank_sum() > 0) sums.push_back({stages_[i]->backward_rank_sum(), final_from});
  }
  return sums;
}

std::vector<StageReport> Network::report() const {
  std::vector<StageReport> reports = reports_;
  for (std::size_t i = 0; i < stages_.size(); ++i) reports[i].backward_weights_s = stages_[i]->backward_weights_s;
  return reports;
}

std::vector<BlockReport> Network::blocks() const {
  const auto moment = [&](int at) {
    const int count = static_cast<int>(reports_.size());
    const StageReport& stage = reports_[static_cast<std::size_t>(at < count ? at : 2 * count - 1 - at)];
    return fmt::format("{} {}", at < count ? "forward" : "backward",
                       stage.layers.empty() ? stage.name : stage.layers.front());
  };
  std::vector<BlockReport> blocks;
  for (const MemoryBlock& block : arena_.blocks()) {
    if (block.size_bytes == 0) continue;
    const bool forever = block.first == kForever;
    std::string alive = forever ? "always" : moment(block.first);
    if (!forever && block.last != block.first) alive += " to " + moment(block.last);
    blocks.push_back({block.label, block.size_bytes, block.offset, alive});
  }
  std::ranges::stable_sort(blocks, std::greater(), &BlockReport::size_bytes);
  return blocks;
}

void Network::reset_times() {
  for (StageReport& report : reports_) report.forward_s = report.backward_s = 0;
  for (const auto& stage : stages_) stage->backward_weights_s = 0;
}

double Network::forward_flop() const {
  double sum = 0;
  for (const StageReport& report : reports_) sum += report.forward_flop;
  return sum;
}

double Network::backward_flop() const {
  double sum = 0;
  for (const StageReport& report : reports_) sum += report.backward_flop;
  return sum;
}

}  // namespace petaflow
