#include "nn/network.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/label.hpp"
#include "base/stopwatch.hpp"
#include "kernels/copy.hpp"
#include "nn/lowering.hpp"
#include "nn/parallel.hpp"

namespace petaflow {

namespace {

/// Refuses what cannot be held before the tiles of millions of samples are listed.
void require_memory_for(const Shape& input) {
  constexpr double kMib = 1 << 20;
  const double bytes = static_cast<double>(input.elements()) * sizeof(float);
  const double there = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= there) return;
  user_error(
      "out of memory: the input of a micro-batch of {} samples alone takes {:.1f} MiB, and this machine has {:.1f} "
      "MiB; use a "
      "smaller train.batch",
      input.n, bytes / kMib, there / kMib);
}

/// Of each of the graph's nodes.
std::vector<std::vector<StageParameter>> by_layer(const Graph& graph, const std::vector<Parameter>& parameters) {
  std::vector<std::vector<StageParameter>> of_layers(graph.nodes().size());
  for (const Parameter& p : parameters) of_layers[p.layer].push_back({p.offset});
  return of_layers;
}

}  // namespace

std::vector<Parameter> list_parameters(const Graph& graph) {
  std::vector<Parameter> parameters;
  std::int64_t offset = 0;
  for (std::size_t layer = 0; layer < graph.nodes().size(); ++layer) {
    const Graph::Node& node = graph.nodes()[layer];
    for (ParamSpec& spec : node.layer->parameters(node.input)) {
      const std::int64_t elements = spec.elements();
      parameters.push_back({fmt::format("{}/{}", node.name, spec.name), std::move(spec), layer, offset});
      offset += elements;
    }
  }
  return parameters;
}

std::vector<LoweredConvolution> list_convolutions(const Graph& graph, const NetworkOptions& options) {
  return lowered_convolutions(graph, by_layer(graph, list_parameters(graph)), options);
}

Network::Network(const Graph& graph, const NetworkOptions& options, const Context& context, ConvTuning* tuning)
    : options_(options), parameters_(list_parameters(graph)) {
  if (graph.nodes().empty()) user_error("a network needs at least one layer");
  require_memory_for(graph.sample().with_batch(options.batch));
  if (!parameters_.empty()) parameter_elements_ = parameters_.back().offset + parameters_.back().spec.elements();
  LoweredNetwork lowered = lower(graph, by_layer(graph, parameters_), options, context, tuning);
  timeline_ = make_timeline(lowered, options.backward, options.recompute);
  if (options.backward) {
    plan_ = plan_backward(lowered);
    for (std::size_t s = 0; s < lowered.stages.size(); ++s) {
      std::vector<bool> adds;
      for (const GradientEdge& edge : plan_.edges[s]) adds.push_back(edge.adds && !edge.temporary);
      if (std::ranges::find(adds, true) != adds.end()) lowered.stages[s].stage->prepare_to_add(adds, context);
    }
  }
  const std::vector<GradientPart> gradients = list_gradients(graph, lowered);
  memory_ = std::make_unique<StepMemory>(lowered, timeline_, plan_, options, parameter_elements_,
                                         options.plans_gradient ? gradients : std::vector<GradientPart>());
  outputs_ = lowered.outputs;
  const bool differ = std::ranges::find(timeline_.again, true) != timeline_.again.end();
  for (std::size_t s = 0; s < lowered.stages.size(); ++s) {
    Stage& stage = *lowered.stages[s].stage;
    stage.buffers = memory_->buffers(s, options.backward ? Action::Kind::kBackward : Action::Kind::kForward);
    if (differ) {
      others_.push_back(stage.buffers);
      first_.push_back(memory_->buffers(s, Action::Kind::kForward));
    }
  }
  list_reports(graph, lowered);
  for (LoweredStage& stage : lowered.stages) stages_.push_back(std::move(stage.stage));
  list_final_gradients(gradients);
}

void Network::list_reports(const Graph& graph, const LoweredNetwork& lowered) {
  for (std::size_t s = 0; s < lowered.stages.size(); ++s) {
    const LoweredStage& lowered_stage = lowered.stages[s];
    const Stage& stage = *lowered_stage.stage;
    const bool wants_dx = options_.backward && std::ranges::any_of(plan_.edges[s], &GradientEdge::wanted);
    StageReport report;
    report.name = lowered_stage.name;
    for (const std::size_t layer : lowered_stage.layers) report.layers.push_back(graph.nodes()[layer].name);
    report.input = lowered.values[lowered_stage.inputs.front()].shape;
    report.output = lowered.values[lowered_stage.outputs.front()].shape;
    report.forward = stage.describe_forward();
    report.backward_data = wants_dx ? stage.describe_backward_data() : "-";
    report.backward_weights = options_.backward ? stage.describe_backward_weights() : "-";
    report.refusals = stage.refusals();
    report.kind = stage.kind();
    report.forward_flop = lowered_stage.forward_flop;
    report.backward_flop = options_.backward ? lowered_stage.forward_flop * (wants_dx ? 2 : 1) : 0;
    report.saved_bytes = options_.backward ? stage.saved_bytes() : 0;
    report.scratch_bytes = std::max(stage.forward_scratch_bytes(), stage.backward_scratch_bytes());
    report.again = timeline_.again[s];
    reports_.push_back(std::move(report));
  }
}

std::vector<GradientPart> Network::list_gradients(const Graph& graph, const LoweredNetwork& lowered) const {
  std::vector<std::size_t> stage_of(graph.nodes().size());  // of each layer
  for (std::size_t s = 0; s < lowered.stages.size(); ++s) {
    for (const std::size_t layer : lowered.stages[s].layers) stage_of[layer] = s;
  }
  std::vector<GradientPart> parts;
  for (const Parameter& p : parameters_) {
    const std::int64_t end = p.offset + p.spec.elements();
    if (parts.empty() || parts.back().stage != stage_of[p.layer]) {
      parts.push_back({stage_of[p.layer], p.offset, end, graph.nodes()[p.layer].name});
    }
    parts.back().end = end;
  }
  return parts;
}

// Gradients become final from the last parameter on; those in front of one that is not wait for it.
void Network::list_final_gradients(const std::vector<GradientPart>& gradients) {
  gradient_begin_.resize(stages_.size());
  std::int64_t begin = parameter_elements_;
  auto part = gradients.rbegin();
  for (std::size_t s = stages_.size(); s-- > 0;) {
    for (; part != gradients.rend() && part->stage >= s; ++part) begin = part->begin;
    gradient_begin_[s] = begin;
  }
}

Network::~Network() { forget_times(); }

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
        weights() + parameters_[i].offset, values.size());
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

Stage& Network::enter(std::size_t moment) {
  const auto [kind, s] = timeline_.actions[moment];
  Stage& stage = *stages_[s];
  if (!first_.empty()) stage.buffers = kind == Action::Kind::kForward ? first_[s] : others_[s];
  memory_->arena().enter(static_cast<int>(moment));
  return stage;
}

void Network::forward(const Context& context) {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    {
      std::optional<Stopwatch> watch;
      if (context.training) watch.emplace(context, reports_[s].forward_s);
      enter(s).forward(context);
    }
    if (context.poll != nullptr) (*context.poll)(false);
  }
}

void Network::backward(const Context& context, float* gradient,
                       const std::function<void(std::int64_t, std::int64_t)>& ready) {
  PETAFLOW_REQUIRE(options_.backward, "a network made for inference");
  std::int64_t end = parameter_elements_;
  for (std::size_t moment = stages_.size(); moment < timeline_.actions.size(); ++moment) {
    const auto [kind, s] = timeline_.actions[moment];
    if (kind == Action::Kind::kAgain) {
      {
        const Stopwatch watch(context, reports_[s].forward_s);
        enter(moment).forward_again(context);
      }
      if (context.poll != nullptr) (*context.poll)(false);
      continue;
    }
    {
      const Stopwatch watch(context, reports_[s].backward_s);
      Stage& stage = enter(moment);
      for (const GradientSlice& slice : plan_.zeros[s]) {
        zero_tensor(context, "petaflow::gradient::zero[kokkos]"_label, memory_->gradient(slice));
      }
      stage.backward(context, gradient);
      for (std::size_t k = 0; k < plan_.edges[s].size(); ++k) {
        if (!plan_.edges[s][k].temporary) continue;
        copy_tensor(context, "petaflow::gradient::add[kokkos]"_label, stage.buffers.dx[k],
                    memory_->gradient_of_input(s, k), plan_.edges[s][k].adds);
      }
    }
    if (ready && gradient_begin_[s] < end) ready(gradient_begin_[s], end);
    end = gradient_begin_[s];
    if (context.poll != nullptr) (*context.poll)(false);
  }
}

std::vector<Network::RankSum> Network::rank_sums() const {
  std::vector<RankSum> sums;
  std::int64_t final_from = parameter_elements_;
  for (const auto& [kind, s] : timeline_.actions) {
    const bool is_backward = kind == Action::Kind::kBackward;
    if (kind == Action::Kind::kAgain && stages_[s]->keeps_saved()) continue;
    const std::int64_t values = is_backward ? stages_[s]->backward_rank_sum() : stages_[s]->forward_rank_sum();
    if (values > 0) sums.push_back({values, final_from});
    if (is_backward) final_from = gradient_begin_[s];
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
    const auto [kind, s] = timeline_.actions[static_cast<std::size_t>(at)];
    const StageReport& stage = reports_[s];
    return fmt::format("{} {}",
                       kind == Action::Kind::kBackward ? "backward"
                       : kind == Action::Kind::kAgain  ? "again"
                                                       : "forward",
                       stage.layers.empty() ? stage.name : stage.layers.front());
  };
  std::vector<BlockReport> blocks;
  for (const MemoryBlock& block : memory_->arena().blocks()) {
    if (block.size_bytes == 0) continue;
    const bool forever = block.first == kForever;
    std::string alive = forever ? "always" : moment(block.first);
    if (!forever && block.last != block.first)
      alive += " to " + (block.last == kToTheEnd ? "the end" : moment(block.last));
    blocks.push_back({block.label, block.size_bytes, block.offset, alive, block.first, block.last});
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

double Network::again_flop() const {
  double sum = 0;
  for (const StageReport& report : reports_) sum += report.again ? report.forward_flop : 0;
  return sum;
}

double Network::backward_flop() const {
  double sum = 0;
  for (const StageReport& report : reports_) sum += report.backward_flop;
  return sum;
}

}  // namespace petaflow
