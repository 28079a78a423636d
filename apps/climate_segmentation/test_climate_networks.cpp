// The networks of the papers for maps of weather: their sizes, what they refuse, and with reduced widths PyTorch's
// values layer by layer and through ten training steps (tests/golden/make_climate_golden.py).
#include <array>
#include <functional>

#include "base/error.hpp"
#include "climate_golden.hpp"
#include "climate_segmentation/counted_flop.hpp"
#include "climate_segmentation/deepcam.hpp"
#include "climate_segmentation/deeplab.hpp"
#include "climate_segmentation/tiramisu.hpp"

namespace petaflow::climate {
namespace {

using testing_support::DeviceArray;
using testing_support::NetworkSize;
using testing_support::node;
using testing_support::number;
using testing_support::size_of;

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
  double rate;  // of learning; small where roundings grow through batch norms
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

// With batch norm, that of the image branches is over the two pixels of a batch of 2, through which roundings grow: at
// 2e-5 those of DeepLabv3+ are 2e-4 after ten steps.
const GoldenCase kGoldenCases[] = {{"tiramisu", small_tiramisu, 4, 0.02},
                                   {"deeplab", small_deeplab, 16, 0.02},
                                   {"deeplab_with_norm", small_deeplab_with_norm, 16, 4e-6},
                                   {"deepcam", small_deepcam, 16, 2e-5}};

class ClimateGolden : public testing::TestWithParam<GoldenCase> {
 protected:
  Graph graph() const {
    using namespace testing_support;
    return GetParam().make({1, GetParam().channels, 1, kGoldenHeight, kGoldenWidth});
  }
};

TEST_P(ClimateGolden, LayersAgreeWithPyTorch) {
  testing_support::GoldenClimate(GetParam().name).expect_layers(graph());
}

TEST_P(ClimateGolden, StepsAgreeWithPyTorch) {
  const Graph network = graph();
  const std::int64_t pixels = testing_support::kGoldenBatch * network.output().pixels();
  std::vector<std::uint8_t> classes(static_cast<std::size_t>(pixels));
  for (std::uint32_t i = 0; i < classes.size(); ++i)
    classes[i] = static_cast<std::uint8_t>(1.5F * (1 + number(i, 101)));
  const DeviceArray<std::uint8_t> map(classes);
  const Objective objective(
      "map", std::make_shared<PixelSoftmaxLoss>(PixelSoftmaxOptions{.class_weights = {0.25F, 1.5F, 0.75F}}));
  testing_support::GoldenClimate(GetParam().name)
      .expect_steps(network, objective, std::array<const void*, 1>{map.data()}, GetParam().rate);
}

INSTANTIATE_TEST_SUITE_P(All, ClimateGolden, testing::ValuesIn(kGoldenCases), testing::PrintToStringParamName());

}  // namespace
}  // namespace petaflow::climate
