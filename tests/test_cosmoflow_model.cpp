// The networks of the CosmoFlow application: their sizes, what they refuse, and with reduced widths PyTorch's values
// layer by layer and through ten training steps (tests/golden/make_cosmoflow_golden.py).
#include <fstream>
#include <numeric>
#include <span>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "conv_request.hpp"
#include "cosmoflow/model.hpp"
#include "golden_network.hpp"
#include "nn/loss.hpp"
#include "nn/network.hpp"
#include "op_support.hpp"
#include "update/optimizer.hpp"

namespace petaflow::cosmoflow {
namespace {

Graph model(const cosmoflow::ModelOptions& options, const Shape& sample, std::int64_t outputs) {
  Graph graph(sample);
  cosmoflow::add_network(graph, options, outputs);
  return graph;
}

using testing_support::Borrowed;
using testing_support::DeviceArray;
using testing_support::expect_digest;
using testing_support::NetworkSize;
using testing_support::node;
using testing_support::number;
using testing_support::size_of;
using testing_support::to_device;
using testing_support::to_host;

constexpr std::int64_t kBatch = 2;

Shape cube(std::int64_t channels, std::int64_t edge) { return {1, channels, edge, edge, edge}; }

std::string refusal(const ModelOptions& options, const Shape& sample) {
  try {
    model(options, sample, 3);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

TEST(CosmoflowModel, SC18HasThePublishedSize) {
  const Graph graph = model({}, cube(1, 128), 3);
  const NetworkSize size = size_of(graph);
  EXPECT_EQ(size.weights, 7'041'443);
  EXPECT_NEAR(size.flop, 21.30e9, 0.005e9);
  EXPECT_EQ(node(graph, "conv7").output, (Shape{1, 256, 2, 2, 2}));
  EXPECT_EQ(graph.output(), (Shape{1, 3, 1, 1, 1}));
  EXPECT_EQ(size_of(model({}, cube(1, 128), 2)).weights, 7'041'186);
  for (const Graph::Node& layer : graph.nodes()) {
    for (const ParamSpec& spec : layer.layer->parameters(layer.input)) {
      EXPECT_EQ(spec.init_mean, spec.name == "bias" ? 0.1 : 0.0);
      EXPECT_EQ(spec.distribution == Distribution::kUniform, spec.name == "weight");
    }
  }
}

TEST(CosmoflowModel, MLPerfHasThePublishedSizeAndItsPoolsOnSmallerCubes) {
  ModelOptions options;
  options.kind = "mlperf";
  const Graph graph = model(options, cube(4, 128), 4);
  EXPECT_EQ(size_of(graph).weights, 8'907'556);
  EXPECT_NEAR(size_of(graph).flop, 68.9e9, 0.05e9);
  EXPECT_EQ(node(model(options, cube(4, 64), 4), "pool5").output, (Shape{1, 512, 2, 2, 2}));
  EXPECT_EQ(node(model(options, cube(4, 32), 4), "pool5").output, (Shape{1, 512, 1, 1, 1}));
}

TEST(CosmoflowModel, QuickAveragesTheMapOfItsLastConvolution) {
  ModelOptions options;
  options.kind = "quick";
  options.filters = {8, 12, 16};
  options.hidden = {10};
  options.batch_norm = "none";
  const Graph graph = model(options, cube(4, 64), 2);
  EXPECT_EQ(node(graph, "conv1").input, (Shape{1, 32, 32, 32, 32}));
  EXPECT_EQ(node(graph, "conv3").output, (Shape{1, 16, 8, 8, 8}));
  EXPECT_EQ(node(graph, "global_pool").output, (Shape{1, 16, 1, 1, 1}));
  EXPECT_EQ(size_of(graph).weights, 27 * (32 * 8 + 8 * 12 + 12 * 16) + 8 + 12 + 16 + 16 * 10 + 10 + 10 * 2 + 2);
  EXPECT_EQ(graph.output().c, 2);
}

TEST(CosmoflowModel, RefusesWithTheReason) {
  ModelOptions options;
  EXPECT_EQ(refusal(options, cube(1, 108)), "");
  EXPECT_EQ(
      refusal(options, {1, 1, 128, 107, 128}),
      "the sc18 network needs cubes with edges of at least 108, found 128x107x128: its convolutions without padding "
      "leave nothing of smaller ones; model.kind = \"mlperf\" pads");
  options.filters = {8, 8};
  EXPECT_EQ(refusal(options, cube(1, 108)), "model.filters must have 7 numbers for the sc18 network, found 2");
  options = {.kind = "mlperf"};
  EXPECT_EQ(refusal(options, cube(4, 32)), "");
  EXPECT_EQ(refusal(options, cube(4, 31)),
            "the mlperf network needs cubes with edges of at least 32, found 31x31x31: its five poolings halve them");
  options.hidden = {16};
  EXPECT_EQ(refusal(options, cube(4, 32)), "model.hidden must have 2 numbers for the mlperf network, found 1");
  options = {.kind = "mlperf", .batch_norm = "none"};
  EXPECT_EQ(refusal(options, cube(4, 32)), "");
  options.batch_norm = "pass";
  EXPECT_EQ(refusal(options, cube(4, 32)),
            "model.batch_norm is \"pass\", but the mlperf network has no batch norm; leave it \"\"");
  EXPECT_EQ(refusal({.kind = "quick"}, cube(4, 33)),
            "layer blocks: an input of (1, 4, 33, 33, 33) cannot be cut into blocks of 2x2x2");
}

struct GoldenCase {
  const char* name;
  std::string conv;  // implementation
  ModelOptions model;
  double gain;  // of the first weights
  std::int64_t channels, edge, outputs;
  RegressionError error;
  OptimizerOptions optimizer;
};

void PrintTo(const GoldenCase& c, std::ostream* out) { *out << c.name << "_" << c.conv; }

OptimizerOptions optimizer(const char* name, double rate, double momentum) {
  OptimizerOptions options;
  options.name = name;
  options.lr = rate;
  options.momentum = momentum;
  return options;
}

std::vector<GoldenCase> golden_cases() {
  const ModelOptions sc18{"sc18", {8, 8, 16, 16, 24, 24, 16}, {32, 16}, 0};
  const ModelOptions mlperf{"mlperf", {8, 16, 16, 24, 32}, {16, 8}, 0};
  const OptimizerOptions adam = optimizer("adam", 1e-3, 0), sgd = optimizer("sgd", 1e-3, 0.9);
  // The portable convolution is slow on the large cubes.
  return {{"sc18", "auto", sc18, 6, 1, 108, 3, RegressionError::kAbsolute, adam},
          {"mlperf", "auto", mlperf, 4, 4, 32, 4, RegressionError::kSquared, sgd},
          {"mlperf", "kokkos", mlperf, 4, 4, 32, 4, RegressionError::kSquared, sgd},
          {"mlperf_64", "auto", mlperf, 4, 4, 64, 4, RegressionError::kSquared, sgd}};
}

std::vector<float> first_weights(const Network& network, double gain) {
  std::vector<float> weights;
  std::uint32_t index = 0;
  for (const Parameter& p : network.parameters()) {
    const bool matrix = p.spec.dims.size() > 1;
    const auto fan_in = static_cast<double>(p.spec.elements() / p.spec.dims[0]);
    const double amplitude = matrix ? std::sqrt(gain / fan_in) : 0.1;
    for (std::int64_t i = 0; i < p.spec.elements(); ++i) {
      weights.push_back(
          static_cast<float>(amplitude * static_cast<double>(number(static_cast<std::uint32_t>(i), index))));
    }
    ++index;
  }
  return weights;
}

// Writes samples first, first + 1, ... of the golden set.
void fill_cubes(const Tensor& x, std::int64_t first) {
  const Shape& s = x.shape;
  std::vector<float> values(static_cast<std::size_t>(s.elements()));
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t c = 0; c < s.c; ++c) {
      for (std::int64_t pixel = 0; pixel < s.pixels(); ++pixel) {
        const std::int64_t i = ((first + n) * s.c + c) * s.pixels() + pixel;
        values[static_cast<std::size_t>((n * s.pixels() + pixel) * s.c + c)] =
            static_cast<float>(first + n + 1) * (1 + number(static_cast<std::uint32_t>(i), 100));
      }
    }
  }
  to_device(values, x);
}

class CosmoflowGolden : public testing::TestWithParam<GoldenCase> {
 protected:
  CosmoflowGolden() {
    std::ifstream file("tests/golden/cosmoflow.json");
    golden_ = nlohmann::json::parse(file)[GetParam().name];
    context_.threads = Kokkos::DefaultHostExecutionSpace().concurrency();
  }

  Graph graph() const {
    return model(GetParam().model, cube(GetParam().channels, GetParam().edge), GetParam().outputs);
  }
  Network network(const Graph& graph, bool backward) const {
    return {
        graph,
        {.batch = kBatch, .backward = backward, .kernels = {.conv = testing_support::conv_request(GetParam().conv)}},
        context_};
  }

  nlohmann::json golden_;
  Context context_;
};

TEST_P(CosmoflowGolden, LayersAgreeWithPyTorch) {
  const Graph whole = graph();
  context_.training = false;
  std::size_t compared = 0;
  for (std::size_t last = 0; last < whole.nodes().size(); ++last) {
    const std::string& name = whole.nodes()[last].name;
    if (name.starts_with("dropout")) continue;
    Graph front(whole.sample());
    for (std::size_t i = 0; i <= last; ++i) front.add<Borrowed>(whole.nodes()[i].name, *whole.nodes()[i].layer);
    Network net = network(front, false);
    to_device(first_weights(net, GetParam().gain), net.weights());
    net.refresh(context_);
    fill_cubes(net.input(), 0);
    net.forward(context_);
    ASSERT_TRUE(golden_["layers"].contains(name)) << name;
    expect_digest(golden_["layers"][name], to_host(net.output()), name);
    ++compared;
  }
  EXPECT_EQ(compared, golden_["layers"].size());
}

TEST_P(CosmoflowGolden, StepsAgreeWithPyTorch) {
  constexpr std::int64_t kSamples = 4;
  const GoldenCase& c = GetParam();
  Network net = network(graph(), true);
  to_device(first_weights(net, c.gain), net.weights());
  net.refresh(context_);
  std::vector<float> targets;
  for (std::int64_t i = 0; i < kSamples * c.outputs; ++i) targets.push_back(number(static_cast<std::uint32_t>(i), 101));
  const DeviceArray<float> device_targets(targets), weights(std::vector<float>(kBatch, 1.0F)), losses(kBatch),
      scores(static_cast<std::size_t>(kBatch * c.outputs)),
      gradient(static_cast<std::size_t>(net.parameter_elements()));
  const DeviceArray<std::int64_t> samples(kBatch);
  StepState state;
  state.learning_rate = static_cast<float>(c.optimizer.lr);
  state.loss_scale = 1.0F / kBatch;
  state.weight = weights.data();
  state.sample = samples.data();
  testing_support::DeviceState device_state;
  context_.step = device_state.data();
  Optimizer optimizer(c.optimizer, net.parameters());
  const RegressionLoss loss(c.error);
  ASSERT_FALSE(golden_["losses"].empty());
  for (; state.step < std::ssize(golden_["losses"]); ++state.step) {
    const std::int64_t first = state.step * kBatch % kSamples;
    const auto step = static_cast<std::size_t>(state.step);
    device_state.set(state);
    fill_cubes(net.input(), first);
    net.forward(context_);
    LossOperands operands;
    operands.output = net.output(), operands.doutput = net.output_gradient(), operands.losses = losses.data();
    operands.target = device_targets.data() + first * c.outputs;
    operands.scores = Tensor::dense(net.output().shape, DType::kF32, scores.data());
    loss.run(context_, operands);
    net.backward(context_, gradient.data());
    if (step == 0) {
      ASSERT_EQ(golden_["gradients"].size(), net.parameters().size());
      std::size_t index = 0;
      for (const Parameter& p : net.parameters())
        expect_digest(golden_["gradients"][index++], to_host<float>(gradient.data() + p.offset, p.spec.elements()),
                      p.name);
    }
    optimizer.step(context_, 0, net.parameter_elements(), gradient.data(), net.weights());
    net.refresh(context_);

    const double expected = golden_["losses"][step].get<double>();
    const std::vector<float> of_samples = losses.get(), found = scores.get();
    EXPECT_NEAR(static_cast<double>(std::accumulate(of_samples.begin(), of_samples.end(), 0.0F)) / kBatch, expected,
                1e-4 * expected)
        << "step " << step;
    const auto outputs = golden_["outputs"][step].get<std::vector<double>>();
    ASSERT_EQ(outputs.size(), found.size());
    double largest = 0;
    for (const double output : outputs) largest = std::max(largest, std::abs(output));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      EXPECT_NEAR(static_cast<double>(found[i]), outputs[i], 1e-4 * largest) << "step " << step << " output " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CosmoflowGolden, testing::ValuesIn(golden_cases()), testing::PrintToStringParamName());

}  // namespace
}  // namespace petaflow::cosmoflow
