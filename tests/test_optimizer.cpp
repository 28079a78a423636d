// The optimizers over all tensors of a network against a replay in f64, one tensor after the other.
#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "op_support.hpp"
#include "optimizer_replay.hpp"
#include "update/optimizer.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::numbers;
using testing_support::OptimizerReplay;

constexpr double kRate = 0.02;
constexpr int kSteps = 6;

/// Tensors of a network: large and small, a bias that starts at zero, a statistic between them.
std::vector<Parameter> tensors() {
  std::vector<Parameter> parameters;
  std::int64_t offset = 0;
  const auto add = [&](const char* name, std::int64_t elements, bool decays, double running_momentum) {
    ParamSpec spec{name, {elements}};
    spec.decays = decays;
    spec.running_momentum = running_momentum;
    parameters.push_back({name, spec, 0, offset});
    offset += elements;
  };
  add("conv/weight", 40000, true, 0);  // three parts of sums
  add("conv/bias", 7, false, 0);
  add("norm/running_mean", 5, false, 0.1);
  add("dense/weight", 300, true, 0);
  add("dense/bias", 3, false, 0);
  return parameters;
}

bool starts_at_zero(const Parameter& p) { return p.name == "conv/bias"; }

/// The first weights and the gradient of a step; each tensor has a size of its own.
std::vector<float> values_of(const std::vector<Parameter>& parameters, bool weights, std::uint32_t seed) {
  std::vector<float> all;
  double scale = weights ? 1 : 0.3;
  for (const Parameter& p : parameters) {
    std::vector<float> values = numbers(p.spec.elements(), seed++);
    for (float& value : values) value *= static_cast<float>(weights && starts_at_zero(p) ? 0 : scale);
    all.insert(all.end(), values.begin(), values.end());
    scale *= weights ? 0.5 : 4;
  }
  return all;
}

/// Weights after some steps of both.
void expect_replayed(const OptimizerOptions& options, int* clipped = nullptr, int* let_through = nullptr) {
  const std::vector<Parameter> parameters = tensors();
  const std::vector<float> start = values_of(parameters, true, 1);
  const std::int64_t elements = std::ssize(start), middle = parameters[3].offset;
  const DeviceArray<float> weights(start), weights_in_ranges(start);
  Optimizer optimizer(options, parameters), in_ranges(options, parameters);
  OptimizerReplay replay(options, parameters, start);
  for (int t = 1; t <= kSteps; ++t) {
    const std::vector<float> gradient = values_of(parameters, false, static_cast<std::uint32_t>(10 * t));
    StepState state;
    state.step = t - 1;
    state.learning_rate = static_cast<float>(kRate / t);
    const DeviceArray<StepState> device_state(std::vector<StepState>{state});
    const DeviceArray<float> g(gradient);
    Context context = testing_support::context_for(2);
    context.step = device_state.data();
    optimizer.step(context, 0, elements, g.data(), weights.data());
    if (!in_ranges.needs_whole_gradient()) {
      const DeviceArray<float> again(gradient);
      in_ranges.step(context, middle, elements, again.data(), weights_in_ranges.data());
      in_ranges.step(context, 0, middle, again.data(), weights_in_ranges.data());
    }
    Kokkos::fence();
    replay.step(kRate / t, gradient);
  }
  const std::vector<float> found = weights.get();
  if (!in_ranges.needs_whole_gradient()) {
    EXPECT_EQ(weights_in_ranges.get(), found);
  }
  EXPECT_LE(testing_support::largest_error({found.begin(), found.end()}, replay.w, 1), 1e-6)
      << options.name << " larc " << options.larc << " clip " << options.clip_norm << " decay " << options.weight_decay;
  if (clipped != nullptr) *clipped = replay.clipped_by_larc;
  if (let_through != nullptr) *let_through = replay.let_through;
}

TEST(Optimizer, AllTensorsFollowTheReplay) {
  for (const char* name : {"adam", "adamw", "lamb", "sgd"}) {
    for (const double clip : {0.0, 3.0}) {
      for (const double decay : {0.0, 0.3}) {
        OptimizerOptions options;
        options.name = name;
        options.clip_norm = clip;
        options.weight_decay = decay;
        options.epsilon = 1e-3;
        expect_replayed(options);
      }
    }
  }
}

TEST(Optimizer, LarcBoundsTheRateOfEveryTensor) {
  for (const char* name : {"adam", "adamw", "sgd"}) {
    for (const double decay : {0.0, 0.3}) {
      for (const double clip : {0.0, 3.0}) {
        OptimizerOptions options;
        options.name = name;
        options.larc = 0.005;
        options.clip_norm = clip;
        options.weight_decay = decay;
        options.epsilon = 1e-3;
        int clipped = 0, let_through = 0;
        expect_replayed(options, &clipped, &let_through);
        EXPECT_GT(clipped, 0);
        EXPECT_GT(let_through, 0);
      }
    }
  }
}

TEST(Optimizer, EveryFormOfTrustFollowsTheReplay) {
  for (const TrustForm form : {TrustForm::kLars, TrustForm::kCosmoFlow, TrustForm::kSc18}) {
    for (const char* name : {"adam", "sgd"}) {
      OptimizerOptions options;
      options.name = name;
      options.larc = form == TrustForm::kSc18 ? 20 : 0.7;
      options.larc_form = form;
      options.ranks = 5;
      options.weight_decay = 0.1;
      options.epsilon = 1e-3;
      int clipped = 0, let_through = 0;
      expect_replayed(options, &clipped, &let_through);
      EXPECT_GT(clipped, 0) << name;
    }
  }
}

constexpr ArrayScope kScopes[] = {ArrayScope::kAll, ArrayScope::kWeights};

TEST(Optimizer, EveryScopeOfDecayAndTrustFollowsTheReplay) {
  for (const ArrayScope decay : kScopes) {
    for (const ArrayScope trust : kScopes) {
      for (const char* name : {"adam", "adamw", "lamb", "sgd"}) {
        for (const TrustForm form : {TrustForm::kLarc, TrustForm::kLars}) {
          OptimizerOptions options;
          options.name = name;
          options.weight_decay = 0.3;
          options.decay_scope = decay;
          options.trust_scope = trust;
          options.larc = name == std::string("lamb") ? 0 : form == TrustForm::kLars ? 0.7 : 0.005;
          options.larc_form = form;
          options.epsilon = 1e-3;
          expect_replayed(options);
        }
      }
    }
  }
}

// torch.optim.SGD([{"params": weights, "weight_decay": 0.3}, {"params": others, "weight_decay": 0}]) and AdamW
// likewise: w -= rate (g + d w), and w = w - rate d w - rate g / (|g| + epsilon) in the first step, with a d for each
// group.
TEST(Optimizer, DecayIsThatOfPyTorchsParameterGroups) {
  const std::vector<Parameter> parameters = tensors();
  std::vector<float> start = values_of(parameters, true, 1);
  for (float& weight : start) weight += 0.5F;  // biases that could decay
  const std::vector<float> gradient = values_of(parameters, false, 7);
  for (const ArrayScope scope : kScopes) {
    for (const bool adamw : {false, true}) {
      OptimizerOptions options;
      options.name = adamw ? "adamw" : "sgd";
      options.momentum = 0;
      options.weight_decay = 0.3;
      options.decay_scope = scope;
      options.epsilon = 1e-3;
      const DeviceArray<float> weights(start), g(gradient);
      StepState state;
      state.learning_rate = 0.1F;
      const DeviceArray<StepState> device_state(std::vector<StepState>{state});
      Context context = testing_support::context_for(2);
      context.step = device_state.data();
      Optimizer(options, parameters).step(context, 0, std::ssize(start), g.data(), weights.data());
      const std::vector<float> found = weights.get();
      for (const Parameter& p : parameters) {
        if (!p.spec.trained()) continue;
        const bool is_bias = p.name.ends_with("bias");
        const double decay = is_bias && scope == ArrayScope::kWeights ? 0 : 0.3;
        for (auto i = static_cast<std::size_t>(p.offset); i < static_cast<std::size_t>(p.offset + p.spec.elements());
             ++i) {
          const double w = static_cast<double>(start[i]), d = static_cast<double>(gradient[i]);
          const double change = adamw ? d / (std::abs(d) + 1e-3) : d;
          ASSERT_NEAR(found[i], w - 0.1 * (change + decay * w), 1e-6) << options.name << " " << p.name;
        }
      }
    }
  }
}

TEST(Optimizer, NesterovsMomentumFollowsTheReplay) {
  OptimizerOptions options;
  options.name = "sgd";
  options.nesterov = true;
  for (const double larc : {0.0, 0.005}) {
    options.larc = larc;
    options.weight_decay = 0.3;
    expect_replayed(options);
  }
}

TEST(Optimizer, LarcWithoutARateOrAGradientIsFinite) {
  OptimizerOptions options;
  options.name = "sgd";
  options.larc = 0.002;
  options.momentum = 0;
  const std::vector<Parameter> parameters = tensors();
  const std::vector<float> start = values_of(parameters, true, 1);
  Optimizer optimizer(options, parameters);
  for (const float rate : {0.0F, 0.5F}) {
    const DeviceArray<float> weights(start), zeros(start.size()), g(values_of(parameters, false, 5));
    StepState state;
    state.learning_rate = rate;
    const DeviceArray<StepState> device_state(std::vector<StepState>{state});
    Context context = testing_support::context_for(2);
    context.step = device_state.data();
    optimizer.step(context, 0, std::ssize(start), rate == 0 ? g.data() : zeros.data(), weights.data());
    const std::vector<float> found = weights.get();
    for (std::size_t i = 0; i < 40000; ++i) ASSERT_EQ(found[i], start[i]);
  }
}

}  // namespace
}  // namespace petaflow
