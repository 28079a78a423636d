// Batch normalisation: running statistics, padded slots, sums and what it refuses; its values and gradients are cases
// of layer_cases.hpp.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "conv_request.hpp"
#include "layer_fixture.hpp"
#include "nn/layers/add.hpp"
#include "op_support.hpp"
#include "update/optimizer.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::Fixture;
using testing_support::planar;
using testing_support::Probe;
using testing_support::scattered;
using testing_support::to_device;
using testing_support::to_host;

const cases::LayerCase kNorm{"batch_norm", {4, 21, 1, 5, 3}, [](Graph& g) { g.add<BatchNorm>("b"); }};

/// The part of a flat array that belongs to a parameter.
std::vector<float> part(const Network& network, const std::vector<float>& flat, const std::string& name) {
  for (const Parameter& p : network.parameters()) {
    if (p.name == name) return {flat.begin() + p.offset, flat.begin() + p.offset + p.spec.elements()};
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
    const std::vector<float> first = to_host(f.network->input());
    for (int step = 0; step < 5; ++step) {
      const auto factor = static_cast<float>(1 + 0.3 * step), shift = static_cast<float>(0.2 * step);
      std::vector<float> x = first;
      for (float& value : x) value = factor * value + shift;
      to_device(x, f.network->input());
      const DeviceArray<float> gradient(f.gradient());
      optimizer.step(f.context, 0, f.network->parameter_elements(), gradient.data(), f.network->weights());
    }
    for (const std::string what : {"running_mean", "running_var"}) {
      const std::vector<float> found = part(*f.network, f.weights(), "b/" + what);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(static_cast<double>(found[i]), golden[what][i].get<double>(), 2e-6) << what << " " << i;
    }
    to_device(first, f.network->input());
    f.context.training = false;
    const std::vector<float> y = planar(c.x, f.forward());
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(static_cast<double>(y[i]), golden["y"][i].get<double>(), 3e-6);
  }
}

TEST(BatchNorm, NetworksForInferenceNormaliseByRunningStatistics) {
  Fixture f(kNorm, {}, false);
  std::vector<float> weights(static_cast<std::size_t>(f.network->parameter_elements()));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.5F + 0.01F * static_cast<float>(i % 40);
  f.set_weights(weights);
  Graph graph(kNorm.x);
  graph.add<Probe>("probe", kNorm.x.with_batch(1));
  kNorm.add(graph);
  Network network(graph, {.batch = kNorm.x.n, .backward = false, .kernels = {}}, f.context);
  to_device(weights, network.weights());
  Fixture::fill(network.input(), scattered);
  const std::vector<float> expected = f.forward();
  network.forward(f.context);
  const std::vector<float> y = to_host(network.output());
  EXPECT_EQ(y, expected);
  EXPECT_NE(y[0], y[static_cast<std::size_t>(kNorm.x.c)]);
}

// A map of channels behind a bias, in front of a residual, pooling and activation, of slices and of transposed
// convolutions; not where something else reads what the convolution gives.
TEST(BatchNorm, ForInferenceIsPartOfTheConvolution) {
  const cases::LayerCase c{
      "", {3, 16, 1, 12, 20}, [](Graph& g) {
        ConvOptions plain = ConvOptions::same_2d(16, 3);
        plain.bias = false;
        g.add<Conv>("conv1", ConvOptions::same_2d(16, 3)).add<BatchNorm>("norm1").add<Relu>("relu1");
        const GraphValue x = g.value();
        g.add<Conv>("conv2", plain).add<BatchNorm>("norm2", BatchNormOptions{.affine = false});
        g.join<Add>("add", {g.value(), x}).add<Relu>("relu2");
        g.add<Pool>("pool", Pool::square(PoolKind::kMax, 2));
        const GraphValue pooled = g.value();
        g.add<Conv>("conv3", plain).add<BatchNorm>("norm3");
        g.join<Concat>("concat", {g.value(), pooled});
        DeconvOptions up;
        up.filters = 8, up.kernel = {1, 2, 2}, up.stride = {1, 2, 2};
        g.add<Deconv>("up", up).add<BatchNorm>("norm4").add<Relu>("relu4");
        g.add<Conv>("conv5", ConvOptions::same_2d(4, 3));
        const GraphValue twice = g.value();
        g.add<BatchNorm>("norm5");
        g.join<Add>("last", {g.value(), twice});
      }};
  for (const char* kernel : {"auto", "direct", "kokkos"}) {
    if (!kOnHost && std::string(kernel) != "auto") continue;
    for (const bool tiles : {true, false}) {
      NetworkOptions options;
      options.kernels.conv = testing_support::conv_request(kernel);
      options.kernels.tiles = tiles;
      Fixture f(c, options, false);
      std::vector<float> weights = f.weights();
      for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] += 0.4F + 0.1F * scattered(static_cast<std::int64_t>(i));
      f.set_weights(weights);
      Graph graph(c.x);
      graph.add<Probe>("probe", c.x.with_batch(1));
      c.add(graph);
      options.batch = c.x.n, options.backward = false, options.fills_dead = true;
      Network network(graph, options, f.context);
      to_device(weights, network.weights());
      network.refresh(f.context);
      Fixture::fill(network.input(), scattered);
      const std::vector<float> expected = f.forward();
      network.forward(f.context);
      const std::vector<float> y = to_host(network.output());
      EXPECT_LE(testing_support::relative_l2({y.begin(), y.end()}, {expected.begin(), expected.end()}), 2e-6)
          << kernel << (tiles ? " in tiles" : " whole");
      EXPECT_EQ(network.report().size() + 4, f.network->report().size());
    }
  }
}

TEST(BatchNorm, PaddedSlotsCountForNothing) {
  cases::LayerCase three = kNorm;
  three.x.n = 3;
  Fixture padded(kNorm, {}), exact(three, {});
  const std::int64_t size = kNorm.x.sample_size();
  padded.samples[1] = -1;
  const auto without_second = [&](std::vector<float> values) {
    values.erase(values.begin() + size, values.begin() + 2 * size);
    return values;
  };
  std::vector<float> x = to_host(padded.network->input());
  to_device(without_second(x), exact.network->input());
  to_device(without_second(to_host(padded.network->output_gradient())), exact.network->output_gradient());
  std::fill_n(x.begin() + size, size, 1e6F);
  to_device(x, padded.network->input());
  const std::vector<float> found = padded.gradient(), expected = exact.gradient();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 2e-6F * (1 + std::abs(expected[i])));
  const std::vector<float> y = without_second(to_host(padded.network->output())), y3 = to_host(exact.network->output());
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], y3[i], 1e-6F);
}

TEST(BatchNorm, APassWithoutSamplesIsHarmless) {
  Fixture f(kNorm, {});
  std::fill(f.samples.begin(), f.samples.end(), -1);
  for (const float value : f.gradient()) EXPECT_EQ(value, 0.0F);
  for (const float value : f.forward()) EXPECT_TRUE(std::isfinite(value));
}

TEST(BatchNorm, FarFromZeroItLosesNothing) {
  Fixture f(kNorm, {});
  std::vector<float> input = to_host(f.network->input());
  for (float& value : input) value = 3000 + 0.5F * value;
  to_device(input, f.network->input());
  const std::vector<float> output = f.forward();
  const float *const x = input.data(), *const y = output.data();
  const std::vector<float> weight = part(*f.network, f.weights(), "b/weight");
  const std::vector<float> bias = part(*f.network, f.weights(), "b/bias");
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
      ASSERT_NEAR(static_cast<double>(y[p * channels + c]), expected, 3e-4) << c;
    }
  }
}

TEST(BatchNorm, SumsDoNotDependOnThreadsWhereTheOrderIsFixed) {
  cases::LayerCase c = kNorm;
  c.x = {3, 21, 4, 9, 7};
  std::vector<float> results[2];
  for (const int threads : {1, 3}) {
    Fixture f(c, {.fixed_order = true, .kernels = {}}, true, threads);
    std::vector<float> x = to_host(f.network->input());
    // Large values that cancel: what is left of the small ones shows the order of the sum.
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t turn = i / static_cast<std::size_t>(c.x.c) % 7;
      if (turn == 2 || turn == 5) x[i] = turn == 2 ? 1e17F : -1e17F;
    }
    to_device(x, f.network->input());
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
    const DeviceArray<std::int64_t> samples(std::vector<std::int64_t>{5, 6, 7});
    StepState state;
    state.sample = samples.data();
    const testing_support::DeviceState device_state(state);
    context.step = device_state.data();
    context.training = true;
    Network network(graph, {.batch = x.n, .kernels = {}}, context);
    EXPECT_EQ(network.report().back().backward_data == "-", !probe);
    network.initialise(context, 1);
    network.refresh(context);
    Fixture::fill(network.input(), scattered);
    network.forward(context);
    Fixture::fill(network.output_gradient(), scattered);
    const DeviceArray<float> all(static_cast<std::size_t>(network.parameter_elements()));
    network.backward(context, all.data());
    std::vector<float> asked;
    for (const char* name : {"b/running_mean", "b/running_var", "c/bias"})
      std::ranges::copy(part(network, all.get(), name), std::back_inserter(asked));
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
  const std::vector<float> weights = to_host<float>(network.weights(), network.parameter_elements());
  EXPECT_EQ(part(network, weights, "b/weight"), ones);
  EXPECT_EQ(part(network, weights, "b/bias"), zeros);
  EXPECT_EQ(part(network, weights, "b/running_mean"), zeros);
  EXPECT_EQ(part(network, weights, "b/running_var"), ones);
}

// The values are those of test_graph's random networks.
TEST(BatchNorm, TakesASumAndWhatFollowsIntoItsStage) {
  Graph graph(Shape{1, 8, 1, 4, 4});
  graph.add<Conv>("c", cases::conv(8, {1, 3, 3}, {0, 1, 1}));
  const GraphValue skip = graph.value();
  graph.add<BatchNorm>("b1");
  graph.join<Add>("sum1", {skip, graph.value()}).add<Relu>("a").add<Pool>("p", Pool::square(PoolKind::kMax, 2));
  const GraphValue pooled = graph.value();
  graph.add<BatchNorm>("b2").add<Relu>("a2");
  graph.join<Add>("sum2", {graph.value(), pooled});
  std::vector<std::string> names;
  const Network network(graph, {.batch = 2, .kernels = {}}, Context{});
  for (const StageReport& stage : network.report()) names.push_back(stage.name);
  EXPECT_EQ(names, (std::vector<std::string>{"c", "b1 + add + relu + max pool", "b2 + relu", "sum2"}));
}

}  // namespace
}  // namespace petaflow
