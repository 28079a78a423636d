// The networks of the papers for maps of weather: their sizes, what they refuse, and with reduced widths PyTorch's
// values layer by layer and through ten training steps (tests/golden/make_climate_golden.py).
#include <fstream>
#include <functional>
#include <numeric>

#include "base/error.hpp"
#include "climate_segmentation/counted_flop.hpp"
#include "climate_segmentation/deepcam.hpp"
#include "climate_segmentation/deeplab.hpp"
#include "climate_segmentation/tiramisu.hpp"
#include "golden_network.hpp"
#include "nn/loss.hpp"
#include "nn/network.hpp"
#include "op_support.hpp"
#include "update/optimizer.hpp"

namespace petaflow::climate {
namespace {

using testing_support::DeviceArray;
using testing_support::expect_digest;
using testing_support::NetworkSize;
using testing_support::node;
using testing_support::number;
using testing_support::size_of;
using testing_support::to_device;
using testing_support::to_host;

constexpr Shape kFull{1, 16, 1, 768, 1152}, kLogits{1, 3, 1, 768, 1152};

// A step takes three times the arithmetic of forward.
TEST(ClimateNetworks, HaveThePublishedSizes) {
  struct Published {
    const char* name;
    Graph graph;
    std::int64_t weights;
    double step_tflop;
  };
  const Published networks[] = {
      {"tiramisu", tiramisu({}, kFull), 7'504'835, 4.188},
      {"tiramisu of Piz Daint", tiramisu({.filters = 48}, {1, 4, 1, 768, 1152}), 7'134'211, 3.703},
      {"deeplab", deeplab({}, kFull), 43'669'251, 13.024},
      {"deepcam", deepcam({}, kFull), 56'454'720, 1.966},
  };
  for (const Published& network : networks) {
    const NetworkSize size = size_of(network.graph);
    EXPECT_EQ(size.weights, network.weights) << network.name;
    EXPECT_NEAR(3e-12 * size.flop, network.step_tflop, 5e-4) << network.name;
    EXPECT_EQ(network.graph.output(), kLogits) << network.name;
  }
}

// The paper says 14.41 TF of DeepLabv3+; without dilation the counter says what is true.
TEST(ClimateNetworks, HaveThePublishedOperationsByThePapersCounter) {
  EXPECT_NEAR(1e-12 * counted_step_flop(deeplab({}, kFull)), 14.409, 5e-4);
  EXPECT_NEAR(1e-12 * counted_step_flop(tiramisu({}, kFull)), 4.188, 5e-4);
}

TEST(ClimateNetworks, HaveThePublishedMaps) {
  const Graph dense = tiramisu({}, kFull), dilated = deeplab({}, kFull), separable = deepcam({}, kFull);
  EXPECT_EQ(node(dense, "down5/5").input, (Shape{1, 64 + 14 * 32, 1, 48, 72}));
  EXPECT_EQ(node(dense, "up4/twice").output, (Shape{1, 5 * 32, 1, 96, 144}));
  EXPECT_EQ(node(dilated, "block1/3/conv1").output, (Shape{1, 64, 1, 192, 288}));
  EXPECT_EQ(node(dilated, "block4/3/add").output, (Shape{1, 2048, 1, 96, 144}));
  EXPECT_EQ(node(dilated, "decoder/with_input").output, (Shape{1, 384, 1, 768, 1152}));
  EXPECT_EQ(node(separable, "exit/conv3/point").output, (Shape{1, 2048, 1, 48, 72}));
  EXPECT_EQ(node(separable, "decoder/beside").output, (Shape{1, 304, 1, 192, 288}));
}

TEST(ClimateNetworks, OfDeepLabHaveNormsWhereAsked) {
  const Graph plain = deeplab({}, kFull), normed = deeplab({.batch_norm = true}, kFull);
  const auto norms = [](const Graph& graph) {
    return std::ranges::count_if(graph.nodes(), [](const Graph::Node& n) { return n.name.ends_with("/norm"); });
  };
  EXPECT_EQ(norms(plain), 0);
  EXPECT_EQ(norms(normed), 3 * 16 + 6 + 3);  // of units, pyramid and decoder
  EXPECT_EQ(node(normed, "block2/1/norm").input, (Shape{1, 256, 1, 96, 144}));
}

TEST(ClimateNetworks, RefuseWithTheReason) {
  const auto refusal = [](const std::function<Graph()>& make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([] { return tiramisu({}, {1, 4, 1, 96, 144}); }), "");
  EXPECT_EQ(refusal([] { return tiramisu({}, {1, 4, 1, 96, 150}); }),
            "the tiramisu network halves maps 4 times: height and width must be divisible by 16, found 96 x 150");
  EXPECT_EQ(refusal([] { return tiramisu({.layers = {3}}, {1, 4, 1, 96, 150}); }),
            "model.layers must have 2 numbers or more for the tiramisu network, found 1");
  EXPECT_EQ(refusal([] { return deeplab({}, {1, 4, 1, 100, 144}); }),
            "the deeplab network needs a height and a width divisible by 8, found 100 x 144");
  EXPECT_EQ(refusal([] { return deeplab({.units = {3, 4}}, {1, 4, 1, 96, 144}); }),
            "model.units must have 4 numbers for the deeplab network, found 2");
  EXPECT_EQ(refusal([] { return deepcam({}, {1, 4, 1, 104, 144}); }),
            "the deepcam network needs a height and a width divisible by 16, found 104 x 144");
}

struct GoldenCase {
  const char* name;
  Graph (*make)(const Shape& sample);
  std::int64_t channels;
  double rate;             // of learning; small where roundings grow through batch norms
  std::size_t steps = 10;  // that are compared
};

void PrintTo(const GoldenCase& c, std::ostream* out) { *out << c.name; }

Graph small_tiramisu(const Shape& sample) {
  return tiramisu({.filters = 8, .growth = 4, .layers = {2, 2, 3}, .kernel = 5, .dropout = 0}, sample);
}
Graph small_deeplab(const Shape& sample) {
  return deeplab({.width = 0.125, .units = {2, 2, 2, 1}, .rates = {2, 4, 6}}, sample);
}
Graph small_deeplab_with_norm(const Shape& sample) {
  return deeplab({.width = 0.125, .units = {2, 2, 2, 1}, .rates = {2, 4, 6}, .batch_norm = true}, sample);
}
Graph small_deepcam(const Shape& sample) {
  return deepcam({.width = 0.125, .middle_blocks = 2, .rates = {2, 3, 4}}, sample);
}

// With batch norm, that of the image branch of DeepLabv3+ is over the two pixels of a batch of 2, whose variance
// roundings decide about: a few steps agree.
const GoldenCase kGoldenCases[] = {{"tiramisu", small_tiramisu, 4, 0.02},
                                   {"deeplab", small_deeplab, 16, 0.02},
                                   {"deeplab_with_norm", small_deeplab_with_norm, 16, 2e-5, 3},
                                   {"deepcam", small_deepcam, 16, 2e-4}};

constexpr std::int64_t kBatch = 2, kHeight = 64, kWidth = 96;

// Every layer's result is an output.
Graph with_all_outputs(const Graph& whole) {
  Graph graph(whole.sample());
  for (const Graph::Node& n : whole.nodes())
    graph.join<testing_support::Borrowed>(n.name, n.inputs, *n.layer).mark_output();
  return graph;
}

// Of what is trained, in the order of the graph: matrices of numbers of He's variance, small biases, factors near 1.
std::vector<float> first_weights(const Network& network, std::vector<float> weights) {
  std::uint32_t index = 0;
  for (const Parameter& p : network.parameters()) {
    if (!p.spec.trained()) continue;
    const bool matrix = p.spec.dims.size() > 1;
    const auto fan_in = static_cast<double>(p.spec.elements() / p.spec.dims[0]);
    const double amplitude = matrix ? std::sqrt(6 / fan_in) : 0.1, mean = p.name.ends_with("norm/weight") ? 1 : 0;
    for (std::int64_t i = 0; i < p.spec.elements(); ++i) {
      const double random = static_cast<double>(number(static_cast<std::uint32_t>(i), index));
      weights[static_cast<std::size_t>(p.offset + i)] = static_cast<float>(mean + amplitude * random);
    }
    ++index;
  }
  return weights;
}

void set_first_weights(const Context& context, Network& network) {
  network.initialise(context, 1);
  to_device(first_weights(network, to_host<float>(network.weights(), network.parameter_elements())), network.weights());
  network.refresh(context);
}

void fill_fields(const Tensor& x) {
  const Shape& s = x.shape;
  std::vector<float> values(static_cast<std::size_t>(s.elements()));
  for (std::int64_t i = 0; i < s.elements(); ++i) {
    const std::int64_t pixel = i % s.pixels(), c = i / s.pixels() % s.c, n = i / s.pixels() / s.c;
    values[static_cast<std::size_t>((n * s.pixels() + pixel) * s.c + c)] = number(static_cast<std::uint32_t>(i), 100);
  }
  to_device(values, x);
}

class ClimateGolden : public testing::TestWithParam<GoldenCase> {
 protected:
  ClimateGolden() {
    std::ifstream file("tests/golden/climate.json");
    golden_ = nlohmann::json::parse(file)[GetParam().name];
    context_.threads = Kokkos::DefaultHostExecutionSpace().concurrency();
    context_.training = true;
    state_.weight = weights_.data();
    state_.sample = samples_.data();
    state_.loss_scale = 1.0F / kBatch;
    context_.step = device_state_.data();
    device_state_.set(state_);
  }

  Graph graph() const { return GetParam().make({1, GetParam().channels, 1, kHeight, kWidth}); }

  nlohmann::json golden_;
  Context context_;
  StepState state_;
  testing_support::DeviceState device_state_;
  DeviceArray<float> weights_{std::vector<float>(kBatch, 1.0F)};
  DeviceArray<std::int64_t> samples_{kBatch};
};

TEST_P(ClimateGolden, LayersAgreeWithPyTorch) {
  const Graph whole = graph(), opened = with_all_outputs(whole);
  Network network(opened, {.batch = kBatch, .kernels = {}}, context_);
  set_first_weights(context_, network);
  fill_fields(network.input());
  network.forward(context_);
  ASSERT_EQ(golden_["layers"].size(), whole.nodes().size());
  for (std::size_t i = 0; i < whole.nodes().size(); ++i) {
    const std::string& name = whole.nodes()[i].name;
    ASSERT_TRUE(golden_["layers"].contains(name)) << name;
    expect_digest(golden_["layers"][name], to_host(network.output(i)), name);
  }
}

TEST_P(ClimateGolden, StepsAgreeWithPyTorch) {
  Network network(graph(), {.batch = kBatch, .kernels = {}}, context_);
  set_first_weights(context_, network);
  fill_fields(network.input());
  const Shape& logits = network.output().shape;
  std::vector<std::uint8_t> classes(static_cast<std::size_t>(kBatch * logits.pixels()));
  for (std::uint32_t i = 0; i < classes.size(); ++i)
    classes[i] = static_cast<std::uint8_t>(1.5F * (1 + number(i, 101)));
  const DeviceArray<std::uint8_t> map(classes);
  const DeviceArray<float> losses(kBatch), gradient(static_cast<std::size_t>(network.parameter_elements()));
  const PixelSoftmaxLoss loss({.class_weights = {0.25F, 1.5F, 0.75F}});
  const DeviceArray<std::byte> scratch(loss.scratch_bytes(logits));
  OptimizerOptions options;
  options.name = "sgd", options.lr = GetParam().rate, options.momentum = 0.9;
  Optimizer optimizer(options, network.parameters());
  state_.learning_rate = static_cast<float>(options.lr);
  ASSERT_EQ(golden_["losses"].size(), 10U);
  for (std::size_t step = 0; step < GetParam().steps; ++step, ++state_.step) {
    device_state_.set(state_);
    network.forward(context_);
    LossOperands operands;
    operands.output = network.output(), operands.doutput = network.output_gradient();
    operands.losses = losses.data(), operands.target = map.data(), operands.scratch = scratch.data();
    loss.run(context_, operands);
    expect_digest(golden_["outputs"][step], to_host(network.output()), fmt::format("output of step {}", step));
    network.backward(context_, gradient.data());
    if (step == 0) {
      std::size_t index = 0;
      double largest = 0;  // root mean square of a gradient; what is far smaller may be the rest of sums that cancel
      for (const auto& digest : golden_["gradients"]) largest = std::max(largest, digest[0].get<double>());
      for (const Parameter& p : network.parameters()) {
        if (!p.spec.trained()) continue;
        ASSERT_LT(index, golden_["gradients"].size());
        expect_digest(golden_["gradients"][index++], to_host<float>(gradient.data() + p.offset, p.spec.elements()),
                      p.name, 0.2 * largest);
      }
      EXPECT_EQ(index, golden_["gradients"].size());
    }
    optimizer.step(context_, 0, network.parameter_elements(), gradient.data(), network.weights());
    network.refresh(context_);
    const std::vector<float> of_samples = losses.get();
    const double expected = golden_["losses"][step].get<double>();
    EXPECT_NEAR(static_cast<double>(std::accumulate(of_samples.begin(), of_samples.end(), 0.0F)) / kBatch, expected,
                1e-4 * expected)
        << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ClimateGolden, testing::ValuesIn(kGoldenCases), testing::PrintToStringParamName());

}  // namespace
}  // namespace petaflow::climate
