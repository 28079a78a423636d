#include "nn/objective.hpp"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

namespace petaflow {

Objective::Objective(std::vector<LossTerm> terms) : terms_(std::move(terms)) {
  for (std::size_t output = 0; output < terms_.size(); ++output) {
    if (std::ranges::count(terms_, output, &LossTerm::output) != 1) {
      user_error("{} losses, but not one for each output: output {} has {}", terms_.size(), output,
                 std::ranges::count(terms_, output, &LossTerm::output));
    }
  }
}

Objective::Objective(std::string target, std::shared_ptr<const Loss> loss)
    : Objective({LossTerm{0, std::move(target), std::move(loss)}}) {}

std::vector<TargetSpec> Objective::targets(std::span<const Shape> outputs) const {
  if (outputs.size() != terms_.size()) {
    user_error("{} losses for a network of {} outputs: every output needs one", terms_.size(), outputs.size());
  }
  std::vector<TargetSpec> targets;
  for (const LossTerm& term : terms_) {
    TargetSpec spec = term.loss->target(outputs[term.output]);
    if (spec.kind == TargetKind::kNone) continue;
    spec.name = term.target;
    const auto known = std::ranges::find(targets, spec.name, &TargetSpec::name);
    if (known == targets.end()) {
      targets.push_back(spec);
    } else if (*known != spec) {
      user_error("the target {} is read as {} and as {}", spec.name, describe(*known), describe(spec));
    }
  }
  return targets;
}

std::vector<Shape> output_shapes(const Graph& graph, std::int64_t batch) {
  std::vector<Shape> shapes;
  for (const GraphValue value : graph.outputs()) shapes.push_back(graph.shape(value).with_batch(batch));
  return shapes;
}

void check_targets(std::span<const TargetSpec> wanted, std::span<const TargetSpec> offered, const std::string& what) {
  for (const TargetSpec& target : wanted) {
    const auto found = std::ranges::find(offered, target.name, &TargetSpec::name);
    if (found == offered.end()) {
      std::vector<std::string> names;
      for (const TargetSpec& other : offered) names.push_back(other.name);
      user_error("{} has no target \"{}\", which the network is to learn; it has {}", what, target.name,
                 fmt::join(names, ", "));
    }
    if (*found != target) {
      user_error("the target \"{}\" of {} is {}, but the network learns {}", target.name, what, describe(*found),
                 describe(target));
    }
  }
}

ObjectiveRun::ObjectiveRun(const Objective& objective, std::span<const Shape> outputs)
    : objective_(objective),
      targets_(objective.targets(outputs)),
      losses_("petaflow::losses", objective.terms().size() * static_cast<std::size_t>(outputs.front().n)),
      sums_(static_cast<std::size_t>(outputs.front().n)) {
  std::size_t scratch = 0;
  for (const LossTerm& term : objective.terms()) {
    const auto target = std::ranges::find(targets_, term.target, &TargetSpec::name);
    target_of_term_.push_back(static_cast<std::size_t>(target - targets_.begin()));
    scratch = std::max(scratch, term.loss->scratch_bytes(outputs[term.output]));
  }
  scratch_ = decltype(scratch_)("petaflow::loss_scratch", scratch);
}

void ObjectiveRun::run(const Context& context, std::span<const void* const> targets, std::span<const Tensor> outputs,
                       std::span<const Tensor> scores, std::span<const Tensor> gradients) {
  const std::vector<LossTerm>& terms = objective_.terms();
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const std::size_t output = terms[i].output;
    LossOperands operands;
    operands.output = outputs[output];
    operands.target = target_of_term_[i] < targets.size() ? targets[target_of_term_[i]] : nullptr;
    operands.weight = static_cast<float>(terms[i].weight);
    if (!scores.empty()) operands.scores = scores[output];
    if (!gradients.empty()) operands.doutput = gradients[output];
    operands.losses = losses_.device() + i * sums_.size();
    operands.scratch = scratch_.data();
    terms[i].loss->run(context, operands);
  }
  losses_.download(context);
}

std::span<const double> ObjectiveRun::losses() {
  const std::vector<LossTerm>& terms = objective_.terms();
  for (std::size_t slot = 0; slot < sums_.size(); ++slot) {
    sums_[slot] = 0;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      sums_[slot] += terms[i].weight * static_cast<double>(losses_.host()[i * sums_.size() + slot]);
    }
  }
  return sums_;
}

}  // namespace petaflow
