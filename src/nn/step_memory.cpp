#include "nn/step_memory.hpp"

#include <algorithm>
#include <climits>
#include <iterator>

#include "base/error.hpp"

namespace petaflow {

namespace {

using Kind = Action::Kind;

/// The moments in which a block is touched.
struct Life {
  int first = INT_MAX, last = -1;
  void touch(int moment) {
    first = std::min(first, moment);
    last = std::max(last, moment);
  }
  bool empty() const { return last < 0; }
};
constexpr Life kAlways{kForever, kToTheEnd};

std::size_t bytes_of(const LoweredValue& value) {
  return static_cast<std::size_t>(value.shape.elements()) * size_of(value.type);
}

/// The moments in which roots are touched: as the first forward pass writes them, as they are made again, as gradients.
struct Lives {
  std::vector<Life> forward, again, gradient;  // of each root
  std::vector<Life> forward_of, backward_of;   // moments of each stage; backward_of with the forward pass made again
  std::vector<bool> overwritten;               // roots whose gradient begins in their own memory

  Lives(const LoweredNetwork& network, const Timeline& timeline, const BackwardPlan& plan)
      : forward(network.values.size()),
        again(network.values.size()),
        gradient(network.values.size()),
        forward_of(network.stages.size()),
        backward_of(network.stages.size()),
        overwritten(network.values.size(), false) {
    const auto root = [&](std::size_t value) { return network.values[value].root; };
    for (std::size_t i = 0; i < timeline.actions.size(); ++i) {
      const auto moment = static_cast<int>(i);
      const Kind kind = timeline.actions[i].kind;
      const std::size_t s = timeline.actions[i].stage;
      const LoweredStage& stage = network.stages[s];
      const auto touch = [&](std::size_t value) {
        const bool second = kind != Kind::kForward && timeline.given_up[root(value)];
        (second ? again : forward)[root(value)].touch(moment);
      };
      (kind == Kind::kForward ? forward_of : backward_of)[s].touch(moment);
      for (std::size_t k = 0; k < stage.inputs.size(); ++k) {
        if (kind != Kind::kBackward || stage.stage->backward_needs_input(k)) touch(stage.inputs[k]);
      }
      if (kind != Kind::kBackward) {
        std::ranges::for_each(stage.outputs, touch);
        continue;
      }
      for (const std::size_t y : stage.outputs) {
        if (network.values[y].wants_gradient) gradient[root(y)].touch(moment);
      }
      for (std::size_t k = 0; k < stage.inputs.size(); ++k) {
        if (plan.edges[s][k].wanted) gradient[root(stage.inputs[k])].touch(moment);
      }
    }
    forward[0] = kAlways;
    for (const std::size_t output : network.outputs) {
      forward[root(output)] = kAlways;
      if (network.values[output].wants_gradient) gradient[root(output)] = kAlways;
    }
    find_overwritten(network, plan);
  }

 private:
  /// A gradient takes its value's place where the stage that writes it first is the last one that reads the value.
  void find_overwritten(const LoweredNetwork& network, const BackwardPlan& plan) {
    for (std::size_t s = 0; s < network.stages.size(); ++s) {
      if (backward_of[s].empty()) continue;  // for predictions
      const LoweredStage& stage = network.stages[s];
      const int moment = backward_of[s].last;
      for (std::size_t k = 0; k < stage.inputs.size(); ++k) {
        const GradientEdge& edge = plan.edges[s][k];
        const std::size_t root = network.values[stage.inputs[k]].root;
        if (!edge.wanted || edge.temporary || edge.adds || !stage.stage->can_overwrite(k)) continue;
        const Life& value = again[root].empty() ? forward[root] : again[root];
        if (value.last == moment && gradient[root].first == moment) overwritten[root] = true;
      }
    }
  }
};

}  // namespace

StepMemory::StepMemory(const LoweredNetwork& network, const Timeline& timeline, const BackwardPlan& plan,
                       const NetworkOptions& options, std::int64_t weights, const std::vector<GradientPart>& gradient)
    : values_(network.values),
      edges_(plan.edges),
      forward_blocks_(values_.size()),
      backward_blocks_(values_.size()),
      gradient_blocks_(values_.size()),
      stages_(network.stages.size()) {
  const Lives lives(network, timeline, plan);
  std::vector<MemoryBlock> blocks;
  const auto add = [&](std::string label, std::size_t size_bytes, const Life& life) {
    blocks.push_back({std::move(label), size_bytes, life.first, life.last});
    return blocks.size() - 1;
  };
  weights_ = add("weights", static_cast<std::size_t>(std::max<std::int64_t>(1, weights)) * sizeof(float), kAlways);
  std::vector<bool> placed(values_.size(), false);
  const auto place = [&](std::size_t root) {
    if (placed[root]) return;
    placed[root] = true;
    const LoweredValue& value = values_[root];
    const std::string label = root == 0 ? value.name : value.name + " output";
    const auto with_gradient = [&](Life life) {
      if (lives.overwritten[root]) life.last = lives.gradient[root].last;
      return life;
    };
    const bool twice = !lives.again[root].empty();
    forward_blocks_[root] = backward_blocks_[root] =
        add(label, bytes_of(value), twice ? lives.forward[root] : with_gradient(lives.forward[root]));
    if (twice) backward_blocks_[root] = add(label + " again", bytes_of(value), with_gradient(lives.again[root]));
    if (lives.overwritten[root]) {
      gradient_blocks_[root] = backward_blocks_[root];
    } else if (!lives.gradient[root].empty()) {
      gradient_blocks_[root] = add(label + " gradient", bytes_of(value), lives.gradient[root]);
    }
  };
  place(0);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const LoweredStage& lowered = network.stages[s];
    const Stage& stage = *lowered.stage;
    inputs_.push_back(lowered.inputs);
    outputs_.push_back(lowered.outputs);
    const std::string name = lowered.layers.empty() ? lowered.name : values_[lowered.outputs.front()].name;
    for (const std::size_t y : lowered.outputs) place(values_[y].root);
    const Life &forward = lives.forward_of[s], &backward = lives.backward_of[s];
    StageBlocks& own = stages_[s];
    own.forward_scratch = own.again_scratch = add(name + " forward scratch", stage.forward_scratch_bytes(), forward);
    if (!options.backward) continue;
    const std::size_t saved_bytes = stage.saved_bytes();
    if (timeline.again[s]) {
      own.again_scratch =
          add(name + " forward scratch again", stage.forward_scratch_bytes(), {backward.first, backward.first});
    }
    if (timeline.again[s] && !stage.keeps_saved()) {  // what the first forward pass saves is not read
      own.saved_first = add(name + " saved at first", saved_bytes, forward);
      own.saved = add(name + " saved", saved_bytes, backward);
    } else {
      own.saved = own.saved_first = add(name + " saved", saved_bytes, {forward.first, backward.last});
    }
    const Life last{backward.last, backward.last};
    own.backward_scratch = add(name + " backward scratch", stage.backward_scratch_bytes(), last);
    for (std::size_t k = 0; k < lowered.inputs.size(); ++k) {
      own.temporary.emplace_back();
      if (!edges_[s][k].temporary) continue;
      const LoweredValue& x = values_[lowered.inputs[k]];
      const auto elements = static_cast<std::size_t>(x.shape.n * x.shape.pixels() * values_[x.root].shape.c);
      own.temporary.back() = add(name + " gradient to add", elements * size_of(x.type), last);
    }
  }
  const std::size_t first_gradient = blocks.size();
  // Backward goes from its end, which is that of the arena, to its beginning, so that free memory stays in one piece.
  const std::size_t from_end = planned_bytes(static_cast<std::size_t>(weights) * sizeof(float));
  for (const GradientPart& part : gradient) {
    const std::size_t begin = static_cast<std::size_t>(part.begin) * sizeof(float);
    const std::size_t i =
        add(part.name + " gradient of weights", static_cast<std::size_t>(part.end) * sizeof(float) - begin,
            {lives.backward_of[part.stage].last, kToTheEnd});
    blocks[i].from_end = from_end - begin;
  }
  arena_ = Arena(std::move(blocks), options.runs, options.runs && options.fills_dead);
  if (!gradient.empty()) flat_gradient_ = reinterpret_cast<float*>(arena_.block(first_gradient));
}

Tensor StepMemory::slice(std::size_t root, std::int64_t begin, std::int64_t end, std::byte* memory) const {
  const LoweredValue& whole = values_[root];
  Shape shape = whole.shape;
  shape.c = end - begin;
  return {shape, whole.type, whole.shape.c, memory + static_cast<std::size_t>(begin) * size_of(whole.type)};
}

Tensor StepMemory::slice_of(std::size_t value, std::size_t block) const {
  const LoweredValue& v = values_[value];
  return slice(v.root, v.channel, v.channel + v.shape.c, arena_.block(block));
}

Tensor StepMemory::value(std::size_t value) const { return slice_of(value, forward_blocks_[values_[value].root]); }

Tensor StepMemory::gradient(std::size_t value) const {
  const std::optional<std::size_t>& block = gradient_blocks_[values_[value].root];
  return block && values_[value].wants_gradient ? slice_of(value, *block) : Tensor{};
}

Tensor StepMemory::gradient(const GradientSlice& s) const {
  return slice(s.root, s.begin, s.end, arena_.block(*gradient_blocks_[s.root]));
}

StageBuffers StepMemory::buffers(std::size_t stage, Action::Kind kind) const {
  const bool first = kind == Kind::kForward;
  const StageBlocks& own = stages_[stage];
  const auto tensor = [&](std::size_t value) {
    return slice_of(value, (first ? forward_blocks_ : backward_blocks_)[values_[value].root]);
  };
  StageBuffers buffers;
  std::ranges::transform(inputs_[stage], std::back_inserter(buffers.x), tensor);
  std::ranges::transform(outputs_[stage], std::back_inserter(buffers.y), tensor);
  buffers.dx.resize(buffers.x.size());
  buffers.dy.resize(buffers.y.size());
  buffers.adds.resize(buffers.x.size());
  buffers.weights = weights();
  buffers.forward_scratch = arena_.block(first ? own.forward_scratch : own.again_scratch);
  if (own.saved == 0) return buffers;  // for predictions
  for (std::size_t k = 0; k < buffers.dx.size(); ++k) {
    const GradientEdge& edge = edges_[stage][k];
    if (!edge.wanted) continue;
    buffers.dx[k] = edge.temporary ? slice_of(inputs_[stage][k], *own.temporary[k]) : gradient_of_input(stage, k);
    buffers.adds[k] = edge.adds && !edge.temporary;
  }
  std::ranges::transform(outputs_[stage], buffers.dy.begin(), [&](std::size_t y) { return gradient(y); });
  buffers.saved = arena_.block(first ? own.saved_first : own.saved);
  buffers.backward_scratch = arena_.block(own.backward_scratch);
  return buffers;
}

}  // namespace petaflow
