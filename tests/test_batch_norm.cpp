// Batch normalisation: running statistics, padded slots, sums and what it refuses; its values and gradients are cases
// of layer_cases.hpp.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "layer_fixture.hpp"
#include "train/optimizer.hpp"

namespace petaflow {
namespace {

using testing_support::Fixture;
using testing_support::planar;
using testing_support::Probe;
using testing_support::scattered;

const cases::LayerCase kNorm{"batch_norm", {4, 21, 1, 5, 3}, [](Graph& g) { g.add<BatchNorm>("b"); }};

/// The part of a flat array that belongs to a parameter.
std::vector<float> part(const Network& network, const float* flat, const std::string& name) {
  for (const Parameter& p : network.parameters()) {
    if (p.name == name) return {flat + p.offset, flat + p.offset + p.spec.elements()};
  }
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

TEST(BatchNorm, RunningStatisticsAndEvaluationAgreeWithPyTorch) {
  std::ifstream file("tests/golden/layers.json");
  const auto golden = nlohmann::json::parse(file)["running_statistics"];
  const cases::LayerCase c{
      "", {2, 7, 3, 2, 2}, [](Graph& g) { g.add<BatchNorm>("b", BatchNormOptions{.momentum = 0.3}); }};
  for (const char* name : {"adam", "sgd"}) {
    OptimizerOptions options;
    options.name = name;
    options.weight_decay = 0.5;  // of nothing here
    options.clip_norm = 0.1;
    options.larc = 0.002;
    Fixture f(c, {});
    Optimizer optimizer(options, f.network->parameters());
    f.state.loss_scale = 0.5F;  // 1 / 2 samples
    f.state.learning_rate = 0;
    const std::int64_t elements = c.x.elements();
    float* const x = f.network->input().as<float>();
    const std::vector<float> first(x, x + elements);
    for (int step = 0; step < 5; ++step) {
      const auto factor = static_cast<float>(1 + 0.3 * step), shift = static_cast<float>(0.2 * step);
      for (std::int64_t i = 0; i < elements; ++i) x[i] = factor * first[static_cast<std::size_t>(i)] + shift;
      optimizer.step(f.context, 0, f.network->parameter_elements(), f.gradient().data(), f.network->weights());
    }
    for (const std::string what : {"running_mean", "running_var"}) {
      const std::vector<float> found = part(*f.network, f.network->weights(), "b/" + what);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(static_cast<double>(found[i]), golden[what][i].get<double>(), 2e-6) << what << " " << i;
    }
    std::copy(first.begin(), first.end(), x);
    f.context.training = false;
    f.forward();
    const std::vector<float> y = planar(c.x, f.network->output().as<float>());
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(static_cast<double>(y[i]), golden["y"][i].get<double>(), 3e-6);
  }
}

TEST(BatchNorm, NetworksForInferenceNormaliseByRunningStatistics) {
  Fixture f(kNorm, {}, false);
  std::vector<float> weights(f.network->weights(), f.network->weights() + f.network->parameter_elements());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.5F + 0.01F * static_cast<float>(i % 40);
  std::ranges::copy(weights, f.network->weights());
  Graph graph(kNorm.x);
  graph.add<Probe>("probe", kNorm.x.with_batch(1));
  kNorm.add(graph);
  Network network(graph, {.batch = kNorm.x.n, .backward = false, .kernels = {}}, f.context);
  std::ranges::copy(weights, network.weights());
  Fixture::fill(network.input(), scattered);
  network.forward(f.context);
  const float* const y = network.output().as<float>();
  EXPECT_EQ(std::vector<float>(y, y + kNorm.x.elements()), f.forward());
  EXPECT_NE(y[0], y[kNorm.x.c]);
}

TEST(BatchNorm, PaddedSlotsCountForNothing) {
  cases::LayerCase three = kNorm;
  three.x.n = 3;
  Fixture padded(kNorm, {}), exact(three, {});
  const std::int64_t size = kNorm.x.sample_size();
  padded.samples[1] = -1;
  for (std::int64_t n = 0; n < 3; ++n) {
    const std::int64_t from = n == 0 ? 0 : n + 1;
    std::copy_n(padded.network->input().as<float>() + from * size, size, exact.network->input().as<float>() + n * size);
    std::copy_n(padded.network->output_gradient().as<float>() + from * size, size,
                exact.network->output_gradient().as<float>() + n * size);
  }
  std::fill_n(padded.network->input().as<float>() + size, size, 1e6F);
  const std::vector<float> found = padded.gradient(), expected = exact.gradient();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 2e-6F * (1 + std::abs(expected[i])));
  for (std::int64_t i = 0; i < size; ++i) {
    EXPECT_NEAR(padded.network->output().as<float>()[2 * size + i], exact.network->output().as<float>()[size + i],
                1e-6F);
  }
}

TEST(BatchNorm, APassWithoutSamplesIsHarmless) {
  Fixture f(kNorm, {});
  std::fill(f.samples.begin(), f.samples.end(), -1);
  for (const float value : f.gradient()) EXPECT_EQ(value, 0.0F);
  for (const float value : f.forward()) EXPECT_TRUE(std::isfinite(value));
}

TEST(BatchNorm, FarFromZeroItLosesNothing) {
  Fixture f(kNorm, {});
  float* const x = f.network->input().as<float>();
  for (std::int64_t i = 0; i < kNorm.x.elements(); ++i) x[i] = 3000 + 0.5F * x[i];
  f.forward();
  const std::vector<float> weight = part(*f.network, f.network->weights(), "b/weight");
  const std::vector<float> bias = part(*f.network, f.network->weights(), "b/bias");
  const std::int64_t pixels = kNorm.x.n * kNorm.x.pixels(), channels = kNorm.x.c;
  for (std::int64_t c = 0; c < channels; ++c) {
    double mean = 0, squares = 0;
    for (std::int64_t p = 0; p < pixels; ++p)
      mean += static_cast<double>(x[p * channels + c]) / static_cast<double>(pixels);
    for (std::int64_t p = 0; p < pixels; ++p) squares += std::pow(static_cast<double>(x[p * channels + c]) - mean, 2);
    const double scale = static_cast<double>(weight[static_cast<std::size_t>(c)]) /
                         std::sqrt(squares / static_cast<double>(pixels) + 1e-5);
    for (std::int64_t p = 0; p < pixels; ++p) {
      const double expected = (static_cast<double>(x[p * channels + c]) - mean) * scale +
                              static_cast<double>(bias[static_cast<std::size_t>(c)]);
      ASSERT_NEAR(static_cast<double>(f.network->output().as<float>()[p * channels + c]), expected, 3e-4) << c;
    }
  }
}

TEST(BatchNorm, SumsDoNotDependOnThreadsWhereTheOrderIsFixed) {
  cases::LayerCase c = kNorm;
  c.x = {3, 21, 4, 9, 7};
  std::vector<float> results[2];
  for (const int threads : {1, 3}) {
    Fixture f(c, {.fixed_order = true, .kernels = {}}, true, threads);
    float* const x = f.network->input().as<float>();
    // Large values that cancel: what is left of the small ones shows the order of the sum.
    for (std::int64_t i = 0; i < c.x.elements(); ++i) {
      const std::int64_t turn = i / c.x.c % 7;
      if (turn == 2 || turn == 5) x[i] = turn == 2 ? 1e17F : -1e17F;
    }
    results[threads == 1 ? 0 : 1] = f.gradient();
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(BatchNorm, RefusesWhatCannotWork) {
  const auto message = [](const Shape& x, const BatchNormOptions& options, std::int64_t batch) {
    try {
      Graph graph(x);
      graph.add<BatchNorm>("bn1", options);
      const Network network(graph, {.batch = batch, .kernels = {}}, Context{});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({1, 8, 1, 1, 1}, {}, 2), "");
  EXPECT_EQ(message({1, 8, 1, 1, 2}, {}, 1), "");
  EXPECT_NE(message({1, 8, 1, 1, 1}, {}, 1).find("layer bn1: batch norm over one pixel"), std::string::npos);
  EXPECT_NE(message({1, 8, 1, 1, 2}, {.momentum = 0}, 1).find("momentum"), std::string::npos);
  EXPECT_NE(message({1, 8, 1, 1, 2}, {.epsilon = 0}, 1).find("epsilon"), std::string::npos);
}

TEST(BatchNorm, WithoutParametersLetsNoGradientBeComputedForTheInput) {
  const auto gradient = [](bool probe) {
    const Shape x{3, 4, 1, 5, 6};
    Graph graph(x);
    if (probe) graph.add<Probe>("probe", x.with_batch(1));
    graph.add<BatchNorm>("b", BatchNormOptions{.affine = false}).add<Conv>("c", cases::conv(8, {1, 3, 3}, {0, 1, 1}));
    Context context;
    const std::vector<std::int64_t> samples = {5, 6, 7};
    StepState state;
    state.sample = samples.data();
    context.step = &state;
    context.training = true;
    Network network(graph, {.batch = x.n, .kernels = {}}, context);
    EXPECT_EQ(network.report().back().backward_data == "-", !probe);
    network.initialise(context, 1);
    network.refresh(context);
    Fixture::fill(network.input(), scattered);
    network.forward(context);
    Fixture::fill(network.output_gradient(), scattered);
    std::vector<float> all(static_cast<std::size_t>(network.parameter_elements()), 0.0F);
    network.backward(context, all.data());
    std::vector<float> asked;
    for (const char* name : {"b/running_mean", "b/running_var", "c/bias"})
      std::ranges::copy(part(network, all.data(), name), std::back_inserter(asked));
    return asked;
  };
  const std::vector<float> found = gradient(false);
  EXPECT_EQ(found, gradient(true));
  EXPECT_NE(found[0], 0.0F);
}

TEST(BatchNorm, StartsAsPyTorchDoesAndCountsTrainedParametersOnly) {
  Graph graph(Shape{1, 3, 1, 4, 4});
  graph.add<Conv>("c", cases::conv(8, {1, 3, 3}, {0, 1, 1})).add<BatchNorm>("b");
  Network network(graph, {.batch = 2, .kernels = {}}, Context{});
  network.initialise(Context{}, 1);
  EXPECT_EQ(network.trained_elements(), 8 * 27 + 8 + 16);
  EXPECT_EQ(network.parameter_elements(), 8 * 27 + 8 + 32);
  const std::vector<float> zeros(8, 0.0F), ones(8, 1.0F);
  EXPECT_EQ(part(network, network.weights(), "b/weight"), ones);
  EXPECT_EQ(part(network, network.weights(), "b/bias"), zeros);
  EXPECT_EQ(part(network, network.weights(), "b/running_mean"), zeros);
  EXPECT_EQ(part(network, network.weights(), "b/running_var"), ones);
}

}  // namespace
}  // namespace petaflow
