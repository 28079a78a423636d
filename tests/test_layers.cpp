// Every case of layer_cases.hpp: against PyTorch, numerically, in bands and whole, and split into smaller batches.
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "layer_cases.hpp"
#include "nn/network.hpp"
#include "nn/parallel.hpp"
#include "op_support.hpp"
#include "train/optimizer.hpp"

namespace petaflow {
namespace {

// y = x + shift with one shift per element of a sample: its gradient shows the dx of what follows, summed over the
// batch.
class ProbeStage final : public Stage {
 public:
  explicit ProbeStage(std::int64_t size) : size_(size) {}
  void forward(const Context&) override {
    for (std::int64_t i = 0; i < buffers.x.shape.elements(); ++i) {
      buffers.y.as<float>()[i] = buffers.x.as<float>()[i] + buffers.weights[i % size_];
    }
  }
  void backward(const Context&, float* gradient) override {
    std::fill_n(gradient, size_, 0.0F);
    for (std::int64_t i = 0; i < buffers.dy.shape.elements(); ++i) gradient[i % size_] += buffers.dy.as<float>()[i];
  }

 private:
  std::int64_t size_;
};

class Probe final : public Layer {
 public:
  explicit Probe(const Shape& x) : size_(x.sample_size()) {}
  Shape output(const Shape& x) const override { return x; }
  std::vector<ParamSpec> parameters(const Shape&) const override { return {{"shift", {size_}}}; }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<ProbeStage>(size_)}); }

 private:
  std::int64_t size_;
};

float wave(std::int64_t i, double frequency, double amplitude) {
  return static_cast<float>(amplitude * std::sin(frequency * static_cast<double>(i) + 0.5));
}

// In [-2, 2), neighbours far apart and hardly any two values close: maxima and signs are clear.
float scattered(std::int64_t i) {
  const double value = static_cast<double>(i) * 0.6180339887498949;
  return static_cast<float>(4 * (value - std::floor(value)) - 2);
}

float gradient_wave(std::int64_t i) { return wave(i, 0.917, 1.0); }

// Element i of a sample in the order (C, D, H, W), as an index in memory order (D, H, W, C).
std::int64_t memory_index(const Shape& s, std::int64_t i) {
  const std::int64_t channel = i / s.pixels(), pixel = i % s.pixels();
  return pixel * s.c + channel;
}

// A network of the probe and the case's layers, with the waves of make_layer_golden.py in it.
class Fixture {
 public:
  Fixture(const cases::LayerCase& c, NetworkOptions options, bool training = true,
          int threads = HostSpace().concurrency()) {
    context.threads = threads;
    context.training = training;
    Graph graph(c.x);
    graph.add<Probe>("probe", c.x.with_batch(1));
    c.add(graph);
    options.batch = c.x.n;
    network = std::make_unique<Network>(graph, options, context);
    samples.resize(static_cast<std::size_t>(c.x.n));
    std::iota(samples.begin(), samples.end(), 100);
    state.sample = samples.data();
    state.seed = 5;
    context.step = &state;
    int index = 0;
    for (const Parameter& p : network->parameters()) {
      const bool probe = p.name == "probe/shift";
      // Dense weights are (outputs, D, H, W, C) here and (outputs, C, D, H, W) there; no golden case tells them apart.
      const bool running = !p.spec.trained();
      for (std::int64_t i = 0; i < p.spec.elements(); ++i) {
        const float start = running ? static_cast<float>(p.spec.init_mean) : wave(i, 1.7 + index, 0.3);
        network->weights()[p.offset + i] = probe ? 0.0F : start;
      }
      if (!probe && !running) ++index;
    }
    network->refresh(context);
    fill(network->input(), scattered);
    fill(network->output_gradient(), gradient_wave);
  }

  static void fill(const Tensor& t, float (*value)(std::int64_t)) {
    const std::int64_t size = t.shape.sample_size();
    for (std::int64_t n = 0; n < t.shape.n; ++n) {
      for (std::int64_t i = 0; i < size; ++i) t.as<float>()[n * size + memory_index(t.shape, i)] = value(n * size + i);
    }
  }

  std::vector<float> forward() {
    network->forward(context);
    const Tensor y = network->output();
    return {y.as<float>(), y.as<float>() + y.shape.elements()};
  }
  std::vector<float> gradient() {
    forward();
    std::vector<float> result(static_cast<std::size_t>(network->parameter_elements()), std::nanf(""));
    network->backward(context, result.data());
    return result;
  }
  // sum of y times the output gradient, the function whose gradient backward computes
  double objective() {
    const std::vector<float> y = forward();
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i)
      sum += static_cast<double>(y[i]) * static_cast<double>(network->output_gradient().as<float>()[i]);
    return sum;
  }

  Context context;
  StepState state;
  std::vector<std::int64_t> samples;
  std::unique_ptr<Network> network;
};

void expect_golden(const nlohmann::json& golden, const std::vector<float>& values, const std::string& what) {
  ASSERT_EQ(golden.size(), (values.size() + 2) / 3) << what;
  double largest = 0.1;
  for (const auto& value : golden) largest = std::max(largest, std::abs(value.get<double>()));
  for (std::size_t i = 0; i < golden.size(); ++i) {
    ASSERT_NEAR(golden[i].get<double>(), static_cast<double>(values[3 * i]), 2e-5 * largest)
        << what << " element " << 3 * i;
  }
}

// From memory order to (N, C, D, H, W).
std::vector<float> planar(const Shape& s, const float* values) {
  std::vector<float> result;
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t i = 0; i < s.sample_size(); ++i)
      result.push_back(values[n * s.sample_size() + memory_index(s, i)]);
  }
  return result;
}

class Layers : public testing::TestWithParam<cases::LayerCase> {};

TEST_P(Layers, AgreeWithPyTorchInBandsAndWholeWithEveryConvolution) {
  std::ifstream file("tests/golden/layers.json");
  const auto golden = nlohmann::json::parse(file);
  const auto found = golden.find(GetParam().name);
  // Random masks and other weight orders have no twin there.
  const std::set<std::string> no_twin = {"dense", "dropout", "conv_relu_max_drop", "conv_average_drop"};
  ASSERT_EQ(found == golden.end(), no_twin.contains(GetParam().name)) << "tests/golden/make_layer_golden.py";
  if (found == golden.end()) return;
  for (const std::string conv : {"auto", "kokkos"}) {
    for (const int cut : {0, 1, 2}) {  // in bands, whole, in the order of any number of threads
      Fixture f(GetParam(), {.fixed_order = cut == 2, .kernels = {.conv = conv, .bands = cut != 1}});
      const std::string how = fmt::format("{} cut {}", conv, cut);
      const std::vector<float> gradient = f.gradient();
      expect_golden((*found)["y"], planar(f.network->output().shape, f.network->output().as<float>()), how + " y");
      expect_golden((*found)["dx"], planar(GetParam().x.with_batch(1), gradient.data()), how + " dx");
      std::size_t index = 0;
      for (const Parameter& p : f.network->parameters()) {
        if (p.name == "probe/shift" || !p.spec.trained()) continue;
        const float* first = gradient.data() + p.offset;
        expect_golden((*found)["dparameters"][index++], {first, first + p.spec.elements()}, how + " " + p.name);
      }
      ASSERT_EQ(index, (*found)["dparameters"].size());
    }
  }
}

std::vector<double> to_double(const std::vector<float>& values) { return {values.begin(), values.end()}; }

// Activations, gradients and products in bf16, against f32: each rounding costs 2^-9 of a value, Winograd's transforms
// a few times as much, and a maximum may be found elsewhere.
TEST_P(Layers, AgreeWithF32InBf16) {
  Fixture exact(GetParam(), {});
  const std::vector<double> y = to_double(exact.forward()), gradient = to_double(exact.gradient());
  const std::string name = GetParam().name;
  const bool convolves = name.find("conv") != std::string::npos;
  const bool smooth = std::set<std::string>{"conv", "conv_k1_stride_2", "batch_norm_conv_3d"}.contains(name);
  for (const std::string conv : {"auto", "direct", "kokkos"}) {
    for (const bool bands : {true, false}) {
      Fixture f(GetParam(), {.precision = DType::kBf16, .kernels = {.conv = conv, .bands = bands}});
      const double of_y = testing_support::relative_l2(to_double(f.forward()), y),
                   of_gradient = testing_support::relative_l2(to_double(f.gradient()), gradient);
      const std::string how = fmt::format("{}, {}", conv, bands ? "bands" : "whole");
      EXPECT_LE(of_y, conv == "auto" ? 0.03 : 0.01) << how;
      EXPECT_LE(of_gradient, smooth ? 0.02 : 0.5) << how;
      EXPECT_EQ(of_y > 1e-4 || of_gradient > 1e-4, convolves) << how << ": bf16 is for convolutions";
    }
  }
}

// The output and the gradient of the input, which the probe sums over the batch.
TEST_P(Layers, InBandsAndWholeGiveTheSameBits) {
  Fixture bands(GetParam(), {}), whole(GetParam(), {.kernels = {.bands = false}});
  EXPECT_EQ(bands.forward(), whole.forward());
  const std::vector<float> in_bands = bands.gradient(), in_one = whole.gradient();
  const auto size = static_cast<std::size_t>(GetParam().x.sample_size());
  EXPECT_TRUE(std::equal(in_bands.begin(), in_bands.begin() + static_cast<std::ptrdiff_t>(size), in_one.begin()));
  // Here sums cancel; test_networks holds those of real layers to 1e-6.
  EXPECT_LE(testing_support::relative_l2(to_double(in_bands), to_double(in_one)), 5e-6);
}

TEST(Wide, ConvolutionsAreTransformed) {
  for (const cases::LayerCase& c : cases::kLayerCases) {
    if (std::string(c.name).find("conv_wide") == std::string::npos || !kOnHost) continue;
    for (const DType precision : {DType::kF32, DType::kBf16}) {
      Fixture f(c, {.precision = precision, .kernels = {}});
      for (const StageReport& stage : f.network->report()) {
        if (stage.kind != StageKind::kConvolution) continue;
        for (const std::string& pass : {stage.forward, stage.backward_data, stage.backward_weights})
          EXPECT_EQ(pass.find("winograd"), 0U) << c.name << ": " << pass;
      }
    }
  }
}

// Central differences along random directions of all parameters together; the probe's make dx part of it.
TEST_P(Layers, GradientsAreDerivatives) {
  Fixture f(GetParam(), {});
  std::vector<float> gradient = f.gradient();
  for (const Parameter& p : f.network->parameters()) {  // statistics stand in the places of running ones
    if (!p.spec.trained()) std::fill_n(gradient.begin() + p.offset, p.spec.elements(), 0.0F);
  }
  const std::vector<float> start(f.network->weights(), f.network->weights() + gradient.size());
  double worst = 0, size = 0;
  for (int trial = 0; trial < 3; ++trial) {
    constexpr double kStep = 1e-4;  // kinks crossed on the way cost of the order of the step
    double expected = 0, measured = 0;
    for (const double sign : {1.0, -1.0}) {
      for (std::size_t i = 0; i < start.size(); ++i) {
        const double direction = std::sin(12.9898 * static_cast<double>(i + 1) + 78.233 * trial);
        f.network->weights()[i] = static_cast<float>(static_cast<double>(start[i]) + sign * kStep * direction);
        if (sign > 0) expected += direction * static_cast<double>(gradient[i]);
      }
      f.network->refresh(f.context);
      measured += sign * f.objective() / (2 * kStep);
    }
    worst = std::max(worst, std::abs(expected - measured));
    for (const float g : gradient)
      size += static_cast<double>(g) * static_cast<double>(g) / 6;  // variance along a direction, 3 trials
  }
  EXPECT_LT(worst, 0.02 * std::sqrt(size) + 1e-3);
}

// A batch in one pass equals its samples one by one: same bits forward, dropout included, gradients to rounding.
TEST_P(Layers, DoNotDependOnTheBatch) {
  const cases::LayerCase& c = GetParam();
  if (std::string(c.name).find("batch_norm") != std::string::npos) return;  // which depends on it
  Fixture whole(c, {});
  const std::vector<float> gradient = whole.gradient();
  cases::LayerCase single = c;
  single.x.n = 1;
  Fixture one(single, {});
  const std::int64_t x_size = c.x.sample_size(), y_size = whole.network->output().shape.sample_size();
  std::vector<double> sum(gradient.size(), 0.0);
  for (std::int64_t n = 0; n < c.x.n; ++n) {
    one.samples[0] = whole.samples[static_cast<std::size_t>(n)];
    std::copy_n(whole.network->input().as<float>() + n * x_size, x_size, one.network->input().as<float>());
    std::copy_n(whole.network->output_gradient().as<float>() + n * y_size, y_size,
                one.network->output_gradient().as<float>());
    const std::vector<float> part = one.gradient();
    for (std::size_t i = 0; i < part.size(); ++i) sum[i] += static_cast<double>(part[i]);
    for (std::int64_t i = 0; i < y_size; ++i) {
      const float a = one.network->output().as<float>()[i], b = whole.network->output().as<float>()[n * y_size + i];
      ASSERT_NEAR(a, b, 1e-5F * (1.0F + std::abs(b))) << "sample " << n << " element " << i;
    }
  }
  double largest = 1e-3;
  for (const double value : sum) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < sum.size(); ++i)
    ASSERT_NEAR(sum[i], static_cast<double>(gradient[i]), 1e-5 * largest) << i;
}

INSTANTIATE_TEST_SUITE_P(All, Layers, testing::ValuesIn(cases::kLayerCases),
                         [](const testing::TestParamInfo<cases::LayerCase>& test) {
                           return std::string(test.param.name);
                         });

// Mean, variance and range of the first values of a layer with 27 * 16 inputs per output and 27 * 40 outputs per input.
TEST(Initial, DrawsFromTheDistributionAskedFor) {
  for (const Initial::Weights weights : {Initial::Weights::kHeNormal, Initial::Weights::kGlorotUniform}) {
    const bool glorot = weights == Initial::Weights::kGlorotUniform;
    const double fan_in = 27 * 16, fan_out = 27 * 40;
    const double variance = 0.25 * 2 / (glorot ? fan_in + fan_out : fan_in);
    ConvOptions options = ConvOptions::same_3d(40, 3);
    options.initial = {weights, 0.5, 0.1};
    Graph graph({1, 16, 4, 4, 4});
    graph.add<Conv>("c", options).add<Dense>("d", 3, Initial{.bias = -2});
    const Context context;
    Network network(graph, {}, context);
    network.initialise(context, 11);
    const Parameter& weight = network.parameters()[0];
    const float* first = network.weights() + weight.offset;
    double sum = 0, squares = 0, largest = 0;
    for (std::int64_t i = 0; i < weight.spec.elements(); ++i) {
      const auto value = static_cast<double>(first[i]);
      sum += value, squares += value * value, largest = std::max(largest, std::abs(value));
    }
    const auto count = static_cast<double>(weight.spec.elements());
    EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(variance / count));
    EXPECT_NEAR(squares / count, variance, 5 * variance * std::sqrt((glorot ? 0.8 : 2) / count));
    const double limit = std::sqrt(3 * variance);
    EXPECT_EQ(largest <= limit, glorot);
    EXPECT_GT(largest, 0.99 * limit);
    for (std::int64_t i = 0; i < 40; ++i) EXPECT_EQ(network.weights()[network.parameters()[1].offset + i], 0.1F);
    EXPECT_EQ(network.weights()[network.parameters()[3].offset], -2.0F);
  }
}

TEST(SpaceToDepth, RefusesWhatBlocksDoNotFill) {
  Graph graph({1, 4, 8, 6, 7});
  EXPECT_THROW(graph.add<SpaceToDepth>("s", 2), Error);
}

TEST(Dropout, KeepsTheMeanAndIsOffInEvaluation) {
  const cases::LayerCase c{"dropout", {16, 64, 1, 16, 16}, [](Graph& g) { g.add<Dropout>("o", 0.4F); }};
  Fixture training(c, {}), evaluation(c, {}, false);
  std::fill_n(training.network->input().as<float>(), c.x.elements(), 1.0F);
  std::fill_n(evaluation.network->input().as<float>(), c.x.elements(), 1.0F);
  double sum = 0;
  std::int64_t dropped = 0;
  for (const float value : training.forward()) {
    ASSERT_TRUE(value == 0.0F || std::abs(value - 1.0F / 0.6F) < 1e-6F);
    sum += static_cast<double>(value);
    if (value == 0.0F) ++dropped;
  }
  const auto elements = static_cast<double>(c.x.elements());
  EXPECT_NEAR(sum / elements, 1.0, 5 * std::sqrt(0.4 / 0.6 / elements));
  EXPECT_NEAR(static_cast<double>(dropped) / elements, 0.4, 5 * std::sqrt(0.24 / elements));
  for (const float value : evaluation.forward()) ASSERT_EQ(value, 1.0F);
  const std::vector<float> before = training.forward();
  training.state.epoch = 1;
  EXPECT_NE(before, training.forward()) << "another epoch, another mask";
}

// ---- Batch normalisation ----

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
      optimizer.step(f.context, f.gradient().data(), f.network->weights());
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
