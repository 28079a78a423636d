// Plans of cuDNN on GPUs that need not be there: every pass of every convolution of the networks and of the lists of
// layers has one, or is one of those that are known to have none.
#include <gtest/gtest.h>

#ifndef PETAFLOW_HAVE_CUDNN

TEST(CudnnPlans, AreThereForEveryConvolution) {
  GTEST_SKIP() << "SKIPPED: this build has no cuDNN (docs/gpus.md says how it gets one)";
}

#else

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>

#include "../../perf/layer_list.hpp"
#include "climate_detection/model.hpp"
#include "climate_segmentation/model.hpp"
#include "cosmoflow/model.hpp"
#include "hep/model.hpp"
#include "kernels/describe_cudnn.hpp"
#include "kernels/plans_cudnn.hpp"
#include "nn/layers/deconv.hpp"
#include "op_cases.hpp"

namespace petaflow {

namespace fs = std::filesystem;

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
void PrintTo(const Card& card, std::ostream* out) { *out << card.name; }

namespace {

constexpr Card kV100{"V100", 70, 80, 96, 6, 16, 1530, 877};
const Card& kH200 = kCards.back();

class Driver final : public testing::Environment {
 public:
  void SetUp() override { cudnn::need_driver(); }
};
const auto* const kDriver = testing::AddGlobalTestEnvironment(new Driver);

struct Layer {
  std::string name;
  ConvDesc desc;
};

std::vector<Layer> layers_of_lists() {
  std::vector<Layer> layers;
  for (const fs::directory_entry& entry : fs::directory_iterator("perf/shapes")) {
    const perf::LayerList list = perf::read_layer_list(entry.path().string());
    for (const perf::ConvLayer& layer : list.convolutions) layers.push_back({list.name + " " + layer.name, layer.conv});
  }
  return layers;
}

/// The convolutions of a network; those behind the transposed ones, too.
std::vector<Layer> layers_of(const std::string& input, const Graph& graph, std::int64_t batch) {
  std::vector<Layer> layers;
  for (const Graph::Node& node : graph.nodes()) {
    if (dynamic_cast<const Conv*>(node.layer.get()) == nullptr &&
        dynamic_cast<const Deconv*>(node.layer.get()) == nullptr)
      continue;
    Lowering ops;
    node.layer->lower(ops);
    const auto& op = std::get<ConvOp>(ops.operations().front());
    const bool transposed = op.role == ConvRole::kTransposed;
    const Shape &x = transposed ? node.output : node.input, &y = transposed ? node.input : node.output;
    ConvDesc desc = perf::describe(batch, x.c, y.c, x.extent(), op.geometry);
    EXPECT_EQ(desc.out, y.extent()) << input << " " << node.name;
    layers.push_back({input + " " + node.name, desc});
  }
  return layers;
}

/// The networks of inputs/*.toml with their batches.
std::vector<Layer> layers_of_inputs() {
  struct Input {
    const char* name;
    std::int64_t batch;
    Graph graph;
  };
  const auto cosmoflow = [](const char* kind, std::int64_t edge, std::int64_t channels) {
    Graph graph({1, channels, edge, edge, edge});
    petaflow::cosmoflow::ModelOptions options;
    options.kind = kind;
    petaflow::cosmoflow::add_network(graph, options, 4);
    return graph;
  };
  constexpr Shape kFrame{1, 16, 1, 768, 1152}, kSmallFrame{1, 16, 1, 96, 144};
  const auto maps = [](const char* kind, const char* batch_norm, const Shape& sample) {
    climate_segmentation::ModelOptions options;
    options.kind = kind, options.batch_norm = batch_norm;
    return climate_segmentation::model(options, sample);
  };
  const auto boxes = [](const char* kind, const Shape& sample) {
    climate_detection::ModelOptions options;
    options.kind = kind;
    return climate_detection::model(options, true, sample);
  };
  hep::ModelOptions quick, gfex;
  quick.filters = {32, 32, 32, 32, 32};
  gfex.filters = {16, 32, 32}, gfex.periodic_width = true;
  const Input inputs[] = {
      {"climate_deepcam", 2, maps("deepcam", "pass", kFrame)},
      {"climate_deeplab", 1, maps("deeplab", "none", kFrame)},
      {"climate_detection", 4, boxes("small", kSmallFrame)},
      {"climate_detection_sc17", 8, boxes("sc17", kFrame)},
      {"climate_small", 2, maps("unet", "pass", kSmallFrame)},
      {"climate_tiramisu", 1, maps("tiramisu", "none", kFrame)},
      {"cosmoflow", 8, cosmoflow("sc18", 128, 1)},
      {"cosmoflow_mlperf", 64, cosmoflow("mlperf", 128, 4)},
      {"cosmoflow_quick", 16, cosmoflow("quick", 64, 4)},
      {"hep", 8, hep::model({}, {1, 3, 1, 224, 224})},
      {"hep_gfex", 50, hep::model(gfex, {1, 1, 1, 26, 32})},
      {"hep_quick", 32, hep::model(quick, {1, 3, 1, 64, 64})},
  };
  std::vector<Layer> layers;
  std::set<std::string> names;
  for (const Input& input : inputs) {
    const std::vector<Layer> own = layers_of(input.name, input.graph, input.batch);
    layers.insert(layers.end(), own.begin(), own.end());
    names.insert(input.name);
    std::ifstream file(fmt::format("inputs/{}.toml", input.name));
    std::string line;
    while (std::getline(file, line) && !line.starts_with("batch = ")) continue;
    EXPECT_TRUE((line + " ").starts_with(fmt::format("batch = {} ", input.batch))) << input.name << ": " << line;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator("inputs")) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == ".toml" && !name.starts_with("reference"))
      EXPECT_TRUE(names.contains(name)) << name << " is not in the list of this test";
  }
  return layers;
}

/// What is known to have no plan.
const char* known_refusal(const Card& card, const ConvDesc& desc) {
  return desc.type == DType::kBf16 && card.capability < 80 ? "bf16 came with the A100" : nullptr;
}

constexpr std::array kPasses = {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights};

/// Workspace that engines may take: they copy operands into another order, fill up few channels, and write down each
/// pixel of x for each tap.
std::int64_t most_workspace(const cudnn::Convolution& c) {
  const auto bytes_of = [](const cudnn::Tensor& tensor) {
    return std::accumulate(tensor.size.begin(), tensor.size.end(),
                           std::int64_t{tensor.element == cudnn::Element::kF32 ? 4 : 2}, std::multiplies<>());
  };
  const std::int64_t taps = std::accumulate(c.w.size.begin() + 2, c.w.size.end(), std::int64_t{1}, std::multiplies<>());
  std::int64_t bytes = (std::int64_t{64} << 20) + taps * bytes_of(c.x);
  for (const cudnn::Tensor* tensor : {&c.x, &c.w, &c.y}) {
    const std::int64_t filled = std::max<std::int64_t>(1, 32 / tensor->size[1]);
    bytes += filled * bytes_of(*tensor);
  }
  return bytes;
}

/// What is wrong with the plans of these layers on a card: a sentence each.
class Plans {
 public:
  explicit Plans(const Card& card) : card_(card), device_(cudnn::properties(card)) {}

  void check(const Layer& layer, Pass pass, DType type, F32Products products = F32Products::kFma) {
    ConvDesc desc = layer.desc;
    desc.type = type, desc.products = products;
    const cudnn::Convolution convolution = cudnn::describe(pass, desc);
    if (std::ranges::find(seen_, convolution) != seen_.end()) return;
    seen_.push_back(convolution);
    const cudnn::Plan plan = cudnn::make_plan(convolution, device_);
    const char* known = known_refusal(card_, desc);
    const std::string what = fmt::format("{} {} {} {}", card_.name, layer.name, name_of(pass),
                                         products == F32Products::kTf32 ? "tf32" : name_of(type));
    if (std::getenv("PETAFLOW_SHOW_PLANS") != nullptr)
      fmt::print("{}: {} {:.1f} MiB {}\n", what, plan.engine, double(plan.workspace) / 1048576, plan.refusal);
    if (plan.refusal.empty()) {
      ++made_;
      most_workspace_ = std::max(most_workspace_, plan.workspace);
      if (known != nullptr) wrong.push_back(fmt::format("{}: has a plan now, though {}", what, known));
      if (plan.json.empty()) wrong.push_back(fmt::format("{}: an empty plan", what));
      if (plan.workspace > most_workspace(convolution))
        wrong.push_back(fmt::format("{}: a workspace of {} bytes", what, plan.workspace));
    } else {
      ++refused_;
      if (known == nullptr) wrong.push_back(fmt::format("{}: {}", what, plan.refusal));
    }
  }

  std::string summary() const {
    return fmt::format("{}: {} plans, {} refused as known; the largest workspace is {:.1f} MiB", card_.name, made_,
                       refused_, static_cast<double>(most_workspace_) / (1 << 20));
  }

  std::vector<std::string> wrong;

 private:
  const Card& card_;
  std::string device_;
  std::vector<cudnn::Convolution> seen_;
  int made_ = 0, refused_ = 0;
  std::int64_t most_workspace_ = 0;
};

class CudnnPlans : public testing::TestWithParam<Card> {};

TEST_P(CudnnPlans, AreThereForEveryConvolution) {
  Plans plans(GetParam());
  for (const std::vector<Layer>& layers : {layers_of_lists(), layers_of_inputs()}) {
    ASSERT_GT(layers.size(), 40U);
    for (const Layer& layer : layers) {
      for (const Pass pass : kPasses) {
        for (const DType type : {DType::kF32, DType::kBf16, DType::kFp16}) plans.check(layer, pass, type);
        if (GetParam().capability >= 80) plans.check(layer, pass, DType::kF32, F32Products::kTf32);
      }
    }
  }
  fmt::print("{}\n", plans.summary());
  for (const std::string& sentence : plans.wrong) ADD_FAILURE() << sentence;
}

INSTANTIATE_TEST_SUITE_P(Cards, CudnnPlans, testing::Values(kV100, kCards[0], kCards[1], kCards[2]),
                         [](const testing::TestParamInfo<Card>& info) { return std::string(info.param.name); });

TEST(CudnnPlan, IsNotMadeForWrongShapes) {
  const ConvDesc right = perf::describe(8, 64, 128, {1, 56, 56}, cases::window({1, 3, 3}, {0, 1, 1}));
  for (const Pass pass : kPasses) {
    Plans plans(kH200);
    plans.check({"right", right}, pass, DType::kF32);
    EXPECT_TRUE(plans.wrong.empty()) << plans.wrong.front();
    ConvDesc wrong = right;
    wrong.out.w += 1;
    plans.check({"planted", wrong}, pass, DType::kF32);
    EXPECT_EQ(plans.wrong.size(), 1U) << name_of(pass);
  }
  EXPECT_EQ(cudnn::make_plan(cudnn::describe(Pass::kForward, right), "{}").json.size(), 0U);
}

TEST(CudnnPlan, OthersFollowTheFirst) {
  ConvDesc desc = perf::describe(8, 64, 128, {1, 56, 56}, cases::window({1, 3, 3}, {0, 1, 1}));
  desc.type = DType::kBf16;
  for (const Pass pass : kPasses) {
    const cudnn::Convolution convolution = cudnn::describe(pass, desc);
    const std::string device = cudnn::properties(kH200);
    std::set<std::string> engines;
    for (std::int64_t place = 0; place < 4; ++place) {
      const cudnn::Plan plan = cudnn::make_plan(convolution, device, place);
      EXPECT_EQ(plan.refusal, "");
      engines.insert(plan.engine);
    }
    EXPECT_EQ(engines.size(), 4U) << name_of(pass);
    EXPECT_EQ(cudnn::make_plan(convolution, device).engine, cudnn::make_plan(convolution, device, 0).engine);
    const cudnn::Plan behind = cudnn::make_plan(convolution, device, 10'000);
    EXPECT_TRUE(behind.refusal.starts_with("no plan: there are ")) << behind.refusal;
    EXPECT_TRUE(behind.json.empty());
  }
}

/// Tensor cores round f32 to TF32: they are asked where that is allowed alone.
TEST(CudnnPlan, IsOfTensorCoresInF32WhereTf32WillDo) {
  ConvDesc desc = perf::describe(8, 64, 128, {1, 56, 56}, cases::window({1, 3, 3}, {0, 1, 1}));
  for (const Pass pass : kPasses) {
    const auto engine = [&](F32Products products) {
      desc.products = products;
      return cudnn::make_plan(cudnn::describe(pass, desc), cudnn::properties(kH200)).engine;
    };
    EXPECT_NE(engine(F32Products::kTf32), engine(F32Products::kFma)) << name_of(pass);
    EXPECT_EQ(engine(F32Products::kSplit3), engine(F32Products::kFma)) << name_of(pass);
  }
}

TEST(CudnnPlan, DescribesTensors) {
  using cudnn::Computes, cudnn::Element;
  // 2-D: x in channels [4, 20) of 32, strides of two pixels.
  ConvDesc desc = perf::describe(2, 16, 8, {1, 9, 11}, cases::window({1, 3, 5}, {0, 1, 2}, {1, 2, 2}));
  desc.type = DType::kBf16;
  desc.x_strides = Strides::of(desc.in, 32);
  cudnn::Convolution c = cudnn::describe(Pass::kForward, desc);
  EXPECT_EQ(c.computes, Computes::kY);
  EXPECT_EQ(c.x, (cudnn::Tensor{{2, 16, 9, 11}, {3168, 1, 352, 32}, Element::kBf16}));
  EXPECT_EQ(c.w, (cudnn::Tensor{{8, 16, 3, 5}, {240, 1, 80, 16}, Element::kBf16}));
  EXPECT_EQ(c.y, (cudnn::Tensor{{2, 8, 5, 6}, {240, 1, 48, 8}, Element::kBf16}));
  EXPECT_EQ(c.pad_begin, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(c.stride, (std::vector<std::int64_t>{2, 2}));
  // 3-D, in groups.
  desc = perf::describe(1, 6, 4, {5, 6, 7}, cases::window({3, 1, 2}, {1, 0, 0}, {1, 1, 1}, {2, 1, 1}, 2));
  desc.type = DType::kBf16;
  c = cudnn::describe(Pass::kBackwardWeights, desc);
  EXPECT_EQ(c.computes, Computes::kW);
  EXPECT_EQ(c.w, (cudnn::Tensor{{4, 3, 3, 1, 2}, {18, 1, 6, 6, 3}, Element::kBf16}));
  EXPECT_EQ(c.y, (cudnn::Tensor{{1, 4, 3, 6, 6}, {432, 1, 144, 24, 4}, Element::kBf16}));
  EXPECT_EQ(c.dilation, (std::vector<std::int64_t>{2, 1, 1}));
}

TEST(CudnnPlan, IsForWholeTensorsAndAlignedSlices) {
  const auto is_unaligned = [](std::int64_t pixel_stride, std::int64_t x_channel, DType type) {
    ConvDesc desc = perf::describe(1, 13, 3, {1, 5, 5}, {});
    desc.type = type, desc.x_channel = x_channel;
    desc.x_strides = Strides::of(desc.in, pixel_stride);
    return cudnn::begins_unaligned(desc);
  };
  EXPECT_FALSE(is_unaligned(13, 0, DType::kBf16));
  EXPECT_FALSE(is_unaligned(32, 8, DType::kBf16));
  EXPECT_TRUE(is_unaligned(32, 4, DType::kBf16));
  EXPECT_FALSE(is_unaligned(32, 4, DType::kF32));
  EXPECT_TRUE(is_unaligned(36, 0, DType::kBf16));
}

}  // namespace
}  // namespace petaflow

#endif
