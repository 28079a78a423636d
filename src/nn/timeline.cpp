#include "nn/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace petaflow {

namespace {

double value_bytes(const LoweredValue& value) {
  return static_cast<double>(value.shape.elements()) * static_cast<double>(size_of(value.type));
}

/// The segment of each stage.  A boundary costs the bytes that cross it, which are kept, and those by which it misses
/// an equal part of what the stages keep for backward, which make a segment larger.
std::vector<std::size_t> cut_segments(const LoweredNetwork& network, std::int64_t segments) {
  const std::size_t stages = network.stages.size();
  std::vector<std::size_t> last_use(network.values.size(), 0), first_write(network.values.size(), stages);
  std::vector<double> kept(stages + 1, 0.0);  // by the stages before
  for (std::size_t s = 0; s < stages; ++s) {
    const LoweredStage& stage = network.stages[s];
    kept[s + 1] = kept[s] + static_cast<double>(stage.stage->saved_bytes());
    for (const std::size_t x : stage.inputs) last_use[network.values[x].root] = s;
    for (const std::size_t y : stage.outputs) {
      std::size_t& first = first_write[network.values[y].root];
      first = std::min(first, s);
      last_use[network.values[y].root] = std::max(last_use[network.values[y].root], s);
      kept[s + 1] += value_bytes(network.values[y]);
    }
  }
  const auto crossing = [&](std::size_t boundary) {  // bytes alive between the stages boundary - 1 and boundary
    double bytes = 0;
    for (std::size_t v = 0; v < network.values.size(); ++v) {
      if (first_write[v] < boundary && last_use[v] >= boundary) bytes += value_bytes(network.values[v]);
    }
    return bytes;
  };
  std::vector<std::size_t> segment(stages, 0);
  std::size_t from = 0;
  for (std::int64_t i = 1; i < segments; ++i) {
    // A boundary is looked for within kSlack of a segment to each side of an equal share (other values are not
    // measured).
    constexpr double kSlack = 0.4;
    const auto share = [&](double position) { return kept[stages] * position / static_cast<double>(segments); };
    const auto cost = [&](std::size_t boundary) {
      return std::pair(crossing(boundary), std::abs(kept[boundary] - share(static_cast<double>(i))));
    };
    std::size_t best = 0;
    for (std::size_t boundary = from + 1; boundary < stages; ++boundary) {
      if (kept[boundary] < share(static_cast<double>(i) - kSlack)) continue;
      if (best != 0 && kept[boundary] > share(static_cast<double>(i) + kSlack)) break;
      if (best == 0 || cost(boundary) < cost(best)) best = boundary;
    }
    if (best == 0) break;
    for (std::size_t s = best; s < stages; ++s) segment[s] = static_cast<std::size_t>(i);
    from = best;
  }
  return segment;
}

/// The segment of each stage, which ends behind a convolution or a dense layer: their values, which others read, are
/// kept.
std::vector<std::size_t> cut_behind_arithmetic(const LoweredNetwork& network) {
  std::vector<std::size_t> segment;
  std::size_t at = 0;
  for (const LoweredStage& stage : network.stages) {
    segment.push_back(at);
    if (!stage.stage->is_memory_bound()) ++at;
  }
  return segment;
}

}  // namespace

Timeline make_timeline(const LoweredNetwork& network, bool backward, std::int64_t recompute) {
  const std::size_t stages = network.stages.size();
  Timeline timeline;
  timeline.given_up.resize(network.values.size(), false);
  timeline.again.resize(stages, false);
  for (std::size_t s = 0; s < stages; ++s) timeline.actions.push_back({Action::Kind::kForward, s});
  if (!backward) return timeline;

  const auto root = [&](std::size_t value) { return network.values[value].root; };
  const std::vector<std::size_t> segment =
      recompute == kRecomputeMemoryBound ? cut_behind_arithmetic(network) : cut_segments(network, recompute);
  // A root is given up where all that write and read it are stages of one segment, which is not the last.
  std::vector<std::size_t> home(network.values.size(), stages);
  timeline.given_up.assign(network.values.size(), segment.back() > 0);
  for (std::size_t s = 0; s < stages; ++s) {
    for (const auto* values : {&network.stages[s].inputs, &network.stages[s].outputs}) {
      for (const std::size_t value : *values) {
        std::size_t& at = home[root(value)];
        if (at == stages) at = segment[s];
        if (at != segment[s] || at == segment.back()) timeline.given_up[root(value)] = false;
      }
    }
  }
  timeline.given_up[root(0)] = false;
  for (const std::size_t output : network.outputs) timeline.given_up[root(output)] = false;

  // A stage runs again where what it gives was given up and is read by a backward pass or by another such stage, or
  // where its own backward pass needs what it saves and not all that it gives is kept.
  std::vector<bool> needed(network.values.size(), false);
  for (std::size_t s = stages; s-- > 0;) {
    const LoweredStage& stage = network.stages[s];
    for (std::size_t k = 0; k < stage.inputs.size(); ++k) {
      if (stage.stage->backward_needs_input(k)) needed[root(stage.inputs[k])] = true;
    }
  }
  for (std::size_t s = stages; s-- > 0;) {
    const LoweredStage& stage = network.stages[s];
    const bool gives_up = std::ranges::any_of(stage.outputs, [&](std::size_t y) { return timeline.given_up[root(y)]; });
    const bool wanted = std::ranges::any_of(
        stage.outputs, [&](std::size_t y) { return timeline.given_up[root(y)] && needed[root(y)]; });
    const bool saves_again = stage.stage->saved_bytes() > 0 && !stage.stage->keeps_saved();
    timeline.again[s] = gives_up && (wanted || saves_again);
    if (!timeline.again[s]) continue;
    for (const std::size_t x : stage.inputs) needed[root(x)] = true;
  }
  for (std::size_t end = stages; end > 0;) {
    std::size_t begin = end - 1;
    while (begin > 0 && segment[begin - 1] == segment[end - 1]) --begin;
    for (std::size_t s = begin; s < end; ++s) {
      if (timeline.again[s]) timeline.actions.push_back({Action::Kind::kAgain, s});
    }
    for (std::size_t s = end; s-- > begin;) timeline.actions.push_back({Action::Kind::kBackward, s});
    end = begin;
  }
  return timeline;
}

BackwardPlan plan_backward(const LoweredNetwork& network) {
  BackwardPlan plan;
  plan.edges.resize(network.stages.size());
  plan.zeros.resize(network.stages.size());
  std::vector<std::vector<bool>> given(network.values.size());  // of each root, by channel
  for (std::size_t v = 0; v < network.values.size(); ++v) {
    given[v].resize(static_cast<std::size_t>(network.values[v].shape.c), false);
  }
  const auto channels = [&](std::size_t value) {
    const LoweredValue& v = network.values[value];
    return GradientSlice{v.root, v.channel, v.channel + v.shape.c};
  };
  const auto give = [&](const GradientSlice& slice) {
    std::fill(given[slice.root].begin() + slice.begin, given[slice.root].begin() + slice.end, true);
  };
  for (const std::size_t output : network.outputs) give(channels(output));  // by the loss
  for (std::size_t s = network.stages.size(); s-- > 0;) {
    const LoweredStage& stage = network.stages[s];
    std::vector<GradientSlice> own;
    for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
      GradientEdge edge;
      edge.wanted = network.values[stage.inputs[i]].wants_gradient;
      if (edge.wanted) {
        const GradientSlice slice = channels(stage.inputs[i]);
        const auto begin = given[slice.root].begin() + slice.begin, end = given[slice.root].begin() + slice.end;
        edge.adds = std::find(begin, end, true) != end;
        for (auto at = std::find(begin, end, false); edge.adds && at != end;) {
          const auto stop = std::find(at, end, true);
          plan.zeros[s].push_back({slice.root, at - given[slice.root].begin(), stop - given[slice.root].begin()});
          at = std::find(stop, end, false);
        }
        // Two gradients for one place: a stage may give its inputs' gradients in any order.
        const bool twice = std::ranges::any_of(own, [&](const GradientSlice& other) {
          return other.root == slice.root && other.begin < slice.end && slice.begin < other.end;
        });
        edge.temporary = twice || (edge.adds && !stage.stage->can_add(i));
        own.push_back(slice);
        give(slice);
      }
      plan.edges[s].push_back(edge);
    }
  }
  return plan;
}

}  // namespace petaflow
