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
  Fixture(const cases::LayerCase& c, const KernelOptions& kernels, bool training = true, bool fixed_order = false) {
    context.threads = HostSpace().concurrency();
    context.training = training;
    Graph graph(c.x);
    graph.add<Probe>("probe", c.x.with_batch(1));
    c.add(graph);
    network = std::make_unique<Network>(
        graph, NetworkOptions{.batch = c.x.n, .fixed_order = fixed_order, .kernels = kernels}, context);
    samples.resize(static_cast<std::size_t>(c.x.n));
    std::iota(samples.begin(), samples.end(), 100);
    state.sample = samples.data();
    state.seed = 5;
    context.step = &state;
    int index = 0;
    for (const Parameter& p : network->parameters()) {
      const bool probe = p.name == "probe/shift";
      // Dense weights are (outputs, D, H, W, C) here and (outputs, C, D, H, W) there; no golden case tells them apart.
      for (std::int64_t i = 0; i < p.spec.elements(); ++i)
        network->weights()[p.offset + i] = probe ? 0.0F : wave(i, 1.7 + index, 0.3);
      if (!probe) ++index;
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
      Fixture f(GetParam(), KernelOptions{conv, "auto", cut != 1}, true, cut == 2);
      const std::string how = fmt::format("{} cut {}", conv, cut);
      const std::vector<float> gradient = f.gradient();
      expect_golden((*found)["y"], planar(f.network->output().shape, f.network->output().as<float>()), how + " y");
      expect_golden((*found)["dx"], planar(GetParam().x.with_batch(1), gradient.data()), how + " dx");
      std::size_t index = 0;
      for (const Parameter& p : f.network->parameters()) {
        if (p.name == "probe/shift") continue;
        const float* first = gradient.data() + p.offset;
        expect_golden((*found)["dparameters"][index++], {first, first + p.spec.elements()}, how + " " + p.name);
      }
      ASSERT_EQ(index, (*found)["dparameters"].size());
    }
  }
}

// Central differences along random directions of all parameters together; the probe's make dx part of it.
TEST_P(Layers, GradientsAreDerivatives) {
  Fixture f(GetParam(), {});
  const std::vector<float> gradient = f.gradient();
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

}  // namespace
}  // namespace petaflow
