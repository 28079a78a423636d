// The networks of the papers at their full size: in tiles, whole, and in bf16.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "conv_request.hpp"
#include "cosmoflow/model.hpp"
#include "hep/model.hpp"
#include "nn/layers/conv.hpp"
#include "nn/network.hpp"
#include "op_support.hpp"
#include "rounding_bounds.hpp"

namespace petaflow {
namespace {

namespace tools = Kokkos::Tools::Experimental;

// Builds with assertions compute the networks of half the edge: sanitizers take ten times as long.
#ifdef NDEBUG
constexpr std::int64_t kPart = 1;
#else
constexpr std::int64_t kPart = 2;
#endif

struct Case {
  const char* name;
  std::int64_t batch;
  Graph graph;
};

Case hep_case() { return {"hep", 2, hep::model({}, {1, 3, 1, 224 / kPart, 224 / kPart})}; }

Case cosmoflow_case(const char* kind, std::int64_t channels, std::int64_t outputs) {
  cosmoflow::ModelOptions options;
  options.kind = kind;
  const std::int64_t edge = options.kind == "sc18" && kPart > 1 ? 108 : 128 / kPart;  // its least
  Graph graph({1, channels, edge, edge, edge});
  cosmoflow::add_network(graph, options, outputs);
  return {kind, 1, std::move(graph)};
}

/// One forward and backward pass of random numbers.
struct OnePass {
  std::vector<double> y;
  std::vector<std::vector<double>> gradients;  // of the parameters
  std::vector<std::string> names;

  /// @param poll  Context::poll
  OnePass(const Case& c, const NetworkOptions& given, const std::function<void(bool)>* poll = nullptr) {
    NetworkOptions options = given;
    options.batch = c.batch;
    options.fills_dead = true;
    Context context;
    std::vector<std::int64_t> indices(static_cast<std::size_t>(c.batch));
    std::iota(indices.begin(), indices.end(), 7);
    const testing_support::DeviceArray<std::int64_t> samples(indices);
    StepState state;
    state.sample = samples.data();
    const testing_support::DeviceState device_state(state);
    context.step = device_state.data();
    context.training = true;
    context.poll = poll;
    Network network(c.graph, options, context);
    network.initialise(context, 3);
    const auto fill = [](const Tensor& t, std::uint32_t seed) {
      testing_support::to_device(testing_support::numbers(t.shape.elements(), seed), t);
    };
    fill(network.input(), 1);
    fill(network.output_gradient(), 2);
    network.forward(context);
    const std::vector<float> out = testing_support::to_host(network.output());
    y.assign(out.begin(), out.end());
    const testing_support::DeviceArray<float> device_gradient(static_cast<std::size_t>(network.parameter_elements()));
    network.backward(context, device_gradient.data());
    const std::vector<float> gradient = device_gradient.get();
    for (const Parameter& p : network.parameters()) {
      names.push_back(p.name);
      gradients.emplace_back(gradient.begin() + p.offset, gradient.begin() + p.offset + p.spec.elements());
    }
  }
};

// Sums over up to millions of pixels of signs that cancel.
void expect_same_gradients(const OnePass& tiles, const OnePass& whole) {
  for (std::size_t i = 0; i < tiles.names.size(); ++i)
    EXPECT_LE(testing_support::relative_l2(whole.gradients[i], tiles.gradients[i]), 1e-6) << tiles.names[i];
}

// Layers alone, whose gradients sum random signs, in Winograd's domain, too.
TEST(Networks, OfOneLayerGiveTheSameGradientsInTilesAndWhole) {
  struct Layer {
    std::int64_t batch;
    Shape x;
    std::int64_t filters;
    Extent kernel, pad;
  };
  for (const Layer& layer : {Layer{4, {1, 128, 1, 112, 112}, 128, {1, 3, 3}, {0, 1, 1}},
                             Layer{1, {1, 32, 64, 64, 64}, 64, {3, 3, 3}, {1, 1, 1}},
                             Layer{32, {1, 32, 1, 32, 32}, 32, {1, 3, 3}, {0, 1, 1}},
                             Layer{2, {1, 64, 1, 200, 210}, 16, {1, 3, 3}, {0, 1, 1}},
                             Layer{4, {1, 16, 1, 512, 512}, 16, {1, 3, 3}, {0, 1, 1}},
                             Layer{1, {1, 16, 96, 96, 96}, 16, {3, 3, 3}, {1, 1, 1}},
                             Layer{1, {1, 16, 40, 41, 43}, 16, {5, 3, 3}, {2, 1, 1}}}) {
    ConvOptions conv;
    conv.filters = layer.filters;
    conv.kernel = layer.kernel;
    conv.pad = layer.pad;
    Graph graph({1, layer.x.c, std::max<std::int64_t>(1, layer.x.d / kPart), layer.x.h / kPart, layer.x.w / kPart});
    graph.add<Conv>("conv of " + std::to_string(layer.x.w), conv);
    const Case c{"conv", layer.batch, std::move(graph)};
    for (const char* kernel : {"auto", "direct"}) {
      expect_same_gradients(OnePass(c, {.kernels = {.conv = testing_support::conv_request(kernel)}}),
                            OnePass(c, {.kernels = {.conv = testing_support::conv_request(kernel), .tiles = false}}));
    }
  }
}

// Few filters on odd sizes take the kernels of last resort, which sum as many pixels.
TEST(Networks, OfFewFiltersGiveTheSameGradientsInTilesAndWhole) {
  cosmoflow::ModelOptions options;
  options.kind = "sc18";
  options.filters = {8, 8, 16, 8, 20, 16, 16};
  Graph graph({1, 1, 113, 113, 113});
  cosmoflow::add_network(graph, options, 3);
  const Case c{"sc18", 2, std::move(graph)};
  expect_same_gradients(OnePass(c, {}), OnePass(c, {.kernels = {.tiles = false}}));
}

// Behind batch normalisation, gradients are sums that cancel: of x with a mean and dy without.
TEST(Networks, WithBatchNormGiveTheSameGradientsInTilesAndWhole) {
  cosmoflow::ModelOptions options;
  options.kind = "quick";
  Graph graph({1, 1, 64, 64, 64});
  cosmoflow::add_network(graph, options, 2);
  const Case c{"quick", 2, std::move(graph)};
  for (const char* kernel : {"auto", "direct"}) {
    expect_same_gradients(OnePass(c, {.kernels = {.conv = testing_support::conv_request(kernel)}}),
                          OnePass(c, {.kernels = {.conv = testing_support::conv_request(kernel), .tiles = false}}));
  }
}

// Sizes at which Winograd's transforms just suit some layers: tiles and whole tensors must take them alike.
TEST(Networks, OfOddSizesGiveTheSameInTilesAndWhole) {
  hep::ModelOptions options;
  options.filters = {16, 32, 48, 32};
  options.dropout = 0;
  options.head_dropout = 0.3;
  for (const std::int64_t batch : {1, 2}) {
    for (const Shape& x : {Shape{1, 2, 1, 66, 140}, Shape{1, 1, 1, 45, 83}, Shape{1, 3, 1, 120, 38}}) {
      const Case c{"hep", batch, hep::model(options, x)};
      for (const bool fixed_order : {false, true}) {
        const OnePass tiles(c, {.fixed_order = fixed_order, .kernels = {}});
        const OnePass whole(c, {.fixed_order = fixed_order, .kernels = {.tiles = false}});
        EXPECT_EQ(tiles.y, whole.y) << x.h << " x " << x.w << ", batch " << batch;
        expect_same_gradients(tiles, whole);
      }
    }
  }
}

// Of one sample the weights behind the map's averages have gradients average times dy: 0 where an average is dropped,
// divided by the share that is kept elsewhere.
TEST(Networks, OfHepDropAveragesBeforeTheirLastLayer) {
  hep::ModelOptions options;
  options.filters = {16, 64};
  options.dropout = 0;
  const Shape sample{1, 3, 1, 32, 32};
  const OnePass all({"all", 1, hep::model(options, sample)}, {});
  options.head_dropout = 0.75;
  const OnePass dropped({"dropped", 1, hep::model(options, sample)}, {});
  const auto weight = std::ranges::find(all.names, "fc/weight") - all.names.begin();
  ASSERT_LT(weight, std::ssize(all.names));
  const std::vector<double>& from = all.gradients[static_cast<std::size_t>(weight)];
  const std::vector<double>& to = dropped.gradients[static_cast<std::size_t>(weight)];
  ASSERT_EQ(from.size(), 128U);
  std::ptrdiff_t kept = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    EXPECT_NE(from[i], 0);
    if (to[i] == 0) continue;
    ++kept;
    EXPECT_NEAR(to[i], 4 * from[i], 1e-6 * std::abs(from[i]));
  }
  EXPECT_GT(kept, 128 / 8);  // a quarter is expected
  EXPECT_LT(kept, 128 / 2);
}

/// Labels of the parallel loops that run on the thread which launches, the innermost one last.
class RunningLoops {
 public:
  RunningLoops() {
    labels().clear();
    tools::set_begin_parallel_for_callback([](const char* label, std::uint32_t, std::uint64_t*) {
      if (std::this_thread::get_id() == launcher()) labels().emplace_back(label);
    });
    tools::set_end_parallel_for_callback([](std::uint64_t) {
      if (std::this_thread::get_id() == launcher()) labels().pop_back();
    });
  }
  ~RunningLoops() {
    tools::set_begin_parallel_for_callback(nullptr);
    tools::set_end_parallel_for_callback(nullptr);
  }
  RunningLoops(const RunningLoops&) = delete;
  RunningLoops& operator=(const RunningLoops&) = delete;

  static std::thread::id launcher() {
    static const std::thread::id id = std::this_thread::get_id();
    return id;
  }
  static std::vector<std::string>& labels() {
    static std::vector<std::string> all;
    return all;
  }
};

// Sums over ranks wait where nobody looks after them, and MPI takes calls of one thread alone.
TEST(Networks, PollBetweenStagesAndTilesOnTheThreadThatLaunches) {
  if (!kOnHost) GTEST_SKIP() << "tiles are for the host";
  std::size_t between_stages = 0, strangers = 0;
  std::map<std::string, int> in_loops;
  const std::function<void(bool)> poll = [&](bool in_loop) {
    EXPECT_EQ(in_loop, !RunningLoops::labels().empty());
    strangers += std::this_thread::get_id() != RunningLoops::launcher() ? 1 : 0;
    if (RunningLoops::labels().empty()) {
      between_stages += 1;
    } else {
      in_loops[RunningLoops::labels().back()] += 1;
    }
  };
  Graph equal({1, 8, 1, 16, 16});
  for (int i = 0; i < 8; ++i) {
    ConvOptions conv;
    conv.filters = 8;
    conv.kernel = {1, 3, 3};
    conv.pad = {0, 1, 1};
    equal.add<Conv>(fmt::format("conv{}", i), conv);
  }
  const Case again{"again", 2, std::move(equal)};
  const Case hep = hep_case();
  for (const auto& [which, segments] : {std::pair(&hep, 1), std::pair(&again, 4)}) {
    const Case& c = *which;
    const NetworkOptions options{.recompute = segments, .kernels = {}};
    const OnePass not_polled(c, options);
    between_stages = 0;
    {
      const RunningLoops loops;
      const OnePass polled(c, options, &poll);
      EXPECT_EQ(polled.gradients, not_polled.gradients);
    }
    const Network network(c.graph, {.recompute = segments, .kernels = {}, .runs = false}, Context{});
    std::size_t moments = 2 * network.report().size();
    for (const StageReport& stage : network.report()) moments += stage.again ? 1 : 0;
    EXPECT_EQ(between_stages, moments) << c.name;
    EXPECT_EQ(moments > 2 * network.report().size(), segments > 1);
  }
  EXPECT_EQ(strangers, 0U);
  for (const char* pass : {"::forward[", "::backward_data[", "::backward_weights["}) {
    EXPECT_TRUE(std::ranges::any_of(in_loops, [&](const auto& polled) {
      return polled.first.find(pass) != std::string::npos && polled.second > 1;
    })) << pass;
  }
}

// The input has no gradient: the copy of it in bf16 has none either.
TEST(Networks, HoldNoGradientThatNobodyWants) {
  const Case c = cosmoflow_case("mlperf", 4, 4);
  const Network network(c.graph, {.precision = DType::kBf16, .kernels = {}}, Context{});
  std::size_t converted = 0;
  for (const BlockReport& block : network.blocks()) {
    if (!block.name.starts_with("to bf16")) continue;
    converted += block.name.ends_with("output") ? 1 : 0;
    EXPECT_FALSE(block.name.ends_with("gradient")) << block.name;
  }
  EXPECT_EQ(converted, 1U);
}

std::vector<double> joined(const std::vector<std::vector<double>>& parts) {
  std::vector<double> all;
  for (const std::vector<double>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Networks, GiveTheSameInTilesAndWholeAndNearlySoInBf16) {
  for (const Case& c : std::array{hep_case(), cosmoflow_case("sc18", 1, 3), cosmoflow_case("mlperf", 4, 4)}) {
    const OnePass tiles(c, {}), whole(c, {.kernels = {.tiles = false}});
    EXPECT_EQ(tiles.y, whole.y) << c.name;
    expect_same_gradients(tiles, whole);
    const NetworkOptions in_bf16{.precision = DType::kBf16, .kernels = {}};
    const OnePass bf16(c, in_bf16);
    NetworkOptions planned = in_bf16;
    planned.batch = c.batch, planned.runs = false;
    const testing_support::RoundingBounds bounds =
        testing_support::rounding_bounds(c.graph, Network(c.graph, planned, Context{}).report());
    EXPECT_LE(testing_support::relative_l2(bf16.y, tiles.y), bounds.values) << c.name;
    EXPECT_LE(testing_support::relative_l2(joined(bf16.gradients), joined(tiles.gradients)), bounds.gradient) << c.name;
    EXPECT_LT(bounds.gradient, 0.9) << c.name << ": zeros would do";
    EXPECT_NE(bf16.y, tiles.y) << c.name;
  }
}

}  // namespace
}  // namespace petaflow
