// Every case of layer_cases.hpp: against PyTorch, numerically, in tiles and whole, and split into smaller batches.
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "conv_request.hpp"
#include "layer_fixture.hpp"
#include "op_support.hpp"
#include "rounding_bounds.hpp"

namespace petaflow {
namespace {

using testing_support::Fixture;
using testing_support::planar;
using testing_support::to_device;
using testing_support::to_host;

double largest_of(const nlohmann::json& golden) {
  double largest = 0;
  for (const auto& value : golden) largest = std::max(largest, std::abs(value.get<double>()));
  return largest;
}

/// Every third value: to 2e-5 of the largest of the tensor where that is 0.1 or more, else to 2e-6.
/// @param size_of_all  the largest value of all tensors: what is 100 times smaller may be the rest of sums that cancel
void expect_golden(const nlohmann::json& golden, const std::vector<float>& values, double size_of_all,
                   const std::string& what) {
  ASSERT_EQ(golden.size(), (values.size() + 2) / 3) << what;
  const double largest = largest_of(golden);
  const double bound = std::min(2e-5 * std::max(0.1, largest), 1e-4 * std::max(largest, 1e-2 * size_of_all));
  for (std::size_t i = 0; i < golden.size(); ++i) {
    ASSERT_NEAR(golden[i].get<double>(), static_cast<double>(values[3 * i]), bound) << what << " element " << 3 * i;
  }
}

struct Cut {
  const char* name;
  bool tiles = true, fixed_order = false;
  double cache_share = kCacheShare;

  NetworkOptions options(const std::string& conv, DType precision = DType::kF32) const {
    return {.precision = precision,
            .fixed_order = fixed_order,
            .kernels = {.conv = testing_support::conv_request(conv), .tiles = tiles, .cache_share = cache_share}};
  }
};
constexpr Cut kCuts[] = {{"in tiles"},
                         {"whole", false},
                         {"in the order of any number of threads", true, true},
                         {"in the lowest tiles, of rows of planes in 3-D", true, false, 1e-9}};

// A device has one implementation, which takes whole tensors.
const std::vector<std::string> kConvs =
    kOnHost ? std::vector<std::string>{"auto", "direct", "kokkos"} : std::vector<std::string>{"auto"};
std::span<const Cut> cuts() { return kOnHost ? std::span(kCuts) : std::span(kCuts).subspan(1, 2); }

class Layers : public testing::TestWithParam<cases::LayerCase> {};

TEST_P(Layers, AgreeWithPyTorchInTilesAndWholeWithEveryConvolution) {
  std::ifstream file("tests/golden/layers.json");
  const auto golden = nlohmann::json::parse(file);
  const auto found = golden.find(GetParam().name);
  // Random masks have no twin there; Dropout.MultipliesByItsMask has their values.
  const std::set<std::string> no_twin = {"dropout", "conv_relu_max_drop", "conv_average_drop"};
  if (no_twin.contains(GetParam().name)) return;
  if (found == golden.end()) GTEST_SKIP() << "no values of PyTorch: tests/golden/make_layer_golden.py does not know it";
  for (const std::string& conv : kConvs) {
    for (const Cut& cut : cuts()) {
      Fixture f(GetParam(), cut.options(conv));
      const std::string how = fmt::format("{} {}", conv, cut.name);
      const std::vector<float> gradient = f.gradient();
      expect_golden((*found)["y"], planar(f.network->output().shape, to_host(f.network->output())), 0, how + " y");
      double of_all = largest_of((*found)["dx"]);
      for (const auto& values : (*found)["dparameters"]) of_all = std::max(of_all, largest_of(values));
      expect_golden((*found)["dx"], planar(GetParam().x.with_batch(1), gradient), of_all, how + " dx");
      std::size_t index = 0;
      for (const Parameter& p : f.network->parameters()) {
        if (p.name == "probe/shift" || !p.spec.trained()) continue;
        const float* first = gradient.data() + p.offset;
        expect_golden((*found)["dparameters"][index++], {first, first + p.spec.elements()}, of_all, how + " " + p.name);
      }
      ASSERT_EQ(index, (*found)["dparameters"].size());
    }
  }
}

// Every value of PyTorch is compared with something, and those of the layers that there are do not get lost.
TEST(Golden, BelongsToCases) {
  std::ifstream file("tests/golden/layers.json");
  const auto golden = nlohmann::json::parse(file);
  for (const auto& [name, values] : golden.items()) {
    if (name == "running_statistics") continue;  // test_batch_norm.cpp
    EXPECT_EQ(std::ranges::count(cases::kLayerCases, name, &cases::LayerCase::name), 1) << name;
  }
  EXPECT_GE(golden.size(), 64U);
}

std::vector<double> to_double(const std::vector<float>& values) { return {values.begin(), values.end()}; }

// Draws weights, inputs and gradients of outputs from normal distributions, so that roundings do not cancel.
void fill_at_random(Fixture& f) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> weights = f.weights();
  for (const Parameter& p : f.network->parameters()) {
    if (p.name == "probe/shift" || !p.spec.trained()) continue;
    for (std::int64_t i = 0; i < p.spec.elements(); ++i) {
      const auto mean = static_cast<float>(p.spec.init_mean), spread = static_cast<float>(p.spec.init_std);
      weights[static_cast<std::size_t>(p.offset + i)] = mean + (spread > 0 ? spread : 0.3F) * normal(random);
    }
  }
  f.set_weights(weights);
  for (const Tensor& tensor : {f.network->input(), f.network->output_gradient()}) {
    std::vector<float> values = to_host(tensor);
    for (float& value : values) value = normal(random);
    to_device(values, tensor);
  }
}

/// Few roundings decide about the gradient of a small tensor: each may have 1.5 times the error of all.  Gradients that
/// cancel, such as those of biases in front of batch norm, are held to the size of all.
void expect_gradient(const Network& network, const std::vector<double>& found, const std::vector<double>& expected,
                     double bound) {
  EXPECT_LE(testing_support::relative_l2(found, expected), bound);
  std::vector<double> error(expected.size());
  std::ranges::transform(found, expected, error.begin(), std::minus());
  const double norm_of_all = std::sqrt(testing_support::dot(expected, expected));
  for (const Parameter& p : network.parameters()) {
    if (!p.spec.trained()) continue;
    const auto norm = [&](const std::vector<double>& values) {
      const auto first = values.begin() + p.offset, end = first + p.spec.elements();
      return std::sqrt(std::inner_product(first, end, first, 0.0));
    };
    const double share = static_cast<double>(p.spec.elements()) / static_cast<double>(expected.size());
    EXPECT_LE(norm(error), 1.5 * bound * std::max(norm(expected), std::sqrt(share) * norm_of_all)) << p.name;
  }
}

/// Once with the signs and maxima that the precision decides about, once with those of f32, where the bound is that of
/// roundings alone.
void expect_f32_in(DType precision, const cases::LayerCase& layers, double largest_bound) {
  constexpr double kOfF32 = 1e-5;
  Fixture exact(layers, {});
  fill_at_random(exact);
  const std::vector<double> y = to_double(exact.forward());
  const Fixture::Saved decided = exact.saved();
  const std::vector<double> gradient = to_double(exact.gradient());
  Graph graph(layers.x);
  layers.add(graph);
  for (const std::string& conv : kConvs) {
    for (const Cut& cut : cuts()) {
      SCOPED_TRACE(fmt::format("{} {} {}", name_of(precision), conv, cut.name));
      Fixture f(layers, cut.options(conv, precision));
      fill_at_random(f);
      const testing_support::RoundingBounds bounds =
          testing_support::rounding_bounds(graph, f.network->report(), precision);
      EXPECT_LT(bounds.gradient, largest_bound);
      EXPECT_LT(bounds.rounded, 0.05);
      const double of_y = testing_support::relative_l2(to_double(f.forward()), y);
      EXPECT_LE(of_y, bounds.values + kOfF32);
      const std::vector<double> found = to_double(f.gradient());
      expect_gradient(*f.network, found, gradient, bounds.gradient + kOfF32);
      {
        SCOPED_TRACE("signs and maxima of f32");
        expect_gradient(*f.network, to_double(f.gradient(&decided)), gradient, bounds.rounded + kOfF32);
      }
      EXPECT_EQ(of_y > 1e-4 || testing_support::relative_l2(found, gradient) > 1e-4, bounds.values > 0)
          << "precision is for convolutions";
    }
  }
}

void expect_f32_rounded(const cases::LayerCase& layers, double largest_bound) {
  expect_f32_in(DType::kBf16, layers, largest_bound);
  if (kTakesFp16) expect_f32_in(DType::kFp16, layers, largest_bound);
}

TEST_P(Layers, AgreeWithF32Rounded) { expect_f32_rounded(GetParam(), 0.7 / 1.5); }  // above, zeros would do

// Where no rounding decides which way a gradient goes, the bound is that of the roundings alone.
TEST(Smooth, LayersAgreeTightlyWithF32Rounded) {
  const auto twice = [](Graph& g, const ConvOptions& conv, const PoolGeometry& average) {
    g.add<Conv>("c", conv).add<Relu>("a", 0.99F).add<Pool>("p", average);
    g.add<Conv>("c2", conv).add<Relu>("a2", 0.99F);
  };
  const PoolGeometry square = Pool::square(PoolKind::kAverage, 2), cube = Pool::cube(PoolKind::kAverage, 2);
  for (const cases::LayerCase& layers :
       {cases::LayerCase{"plane", {2, 3, 1, 20, 12}, [&](Graph& g) { twice(g, ConvOptions::same_2d(20, 3), square); }},
        cases::LayerCase{"space", {2, 3, 8, 6, 10}, [&](Graph& g) { twice(g, ConvOptions::same_3d(8, 3), cube); }},
        cases::LayerCase{
            "wide", {2, 16, 1, 48, 72}, [&](Graph& g) { twice(g, ConvOptions::same_2d(16, 3), square); }}}) {
    SCOPED_TRACE(layers.name);
    expect_f32_rounded(layers, 0.05);
  }
}

// The output and the gradient of the input, which the probe sums over the batch.
TEST_P(Layers, InTilesAndWholeGiveTheSameBits) {
  Fixture tiles(GetParam(), {}), whole(GetParam(), {.kernels = {.tiles = false}});
  EXPECT_EQ(tiles.forward(), whole.forward());
  const std::vector<float> in_tiles = tiles.gradient(), in_one = whole.gradient();
  const auto size = static_cast<std::size_t>(GetParam().x.sample_size());
  EXPECT_TRUE(std::equal(in_tiles.begin(), in_tiles.begin() + static_cast<std::ptrdiff_t>(size), in_one.begin()));
  // Here sums cancel; test_networks holds those of real layers to 1e-6.
  EXPECT_LE(testing_support::relative_l2(to_double(in_tiles), to_double(in_one)), 5e-6);
}

// Masks of dropout and statistics of batch norm included.  Of few stages hardly any runs again; of networks some do.
TEST_P(Layers, MadeAgainForBackwardGiveTheSameBits) {
  for (const DType precision : {DType::kF32, DType::kBf16}) {
    NetworkOptions options{.precision = precision, .fixed_order = true, .kernels = {}};
    Fixture kept(GetParam(), options);
    const std::vector<float> gradient = kept.gradient(), y = to_host(kept.network->output());
    const bool is_network = kept.network->report().size() > 5;
    for (const std::int64_t segments : {kRecomputeMemoryBound, std::int64_t{2}, std::int64_t{3}}) {
      if (segments > 2 && !is_network) continue;
      SCOPED_TRACE(fmt::format("{} in {} segments", name_of(precision), segments));
      options.recompute = segments;
      Fixture again(GetParam(), options);
      EXPECT_EQ(again.gradient(), gradient);
      EXPECT_EQ(to_host(again.network->output()), y);
      const std::vector<StageReport> stages = again.network->report();
      if (segments != kRecomputeMemoryBound) {
        EXPECT_TRUE(!is_network || std::ranges::any_of(stages, &StageReport::again));
        continue;
      }
      for (const StageReport& stage : stages) {
        const bool depthwise = stage.forward.starts_with("depthwise");
        EXPECT_TRUE(!stage.again || stage.kind == StageKind::kPointwise || depthwise) << stage.name;
      }
    }
  }
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
  const std::vector<float> start = f.weights();
  double worst = 0, size = 0;
  for (int trial = 0; trial < 3; ++trial) {
    constexpr double kStep = 1e-4;  // kinks crossed on the way cost of the order of the step
    double expected = 0, measured = 0;
    for (const double sign : {1.0, -1.0}) {
      std::vector<float> moved(start.size());
      for (std::size_t i = 0; i < start.size(); ++i) {
        const double direction = std::sin(12.9898 * static_cast<double>(i + 1) + 78.233 * trial);
        moved[i] = static_cast<float>(static_cast<double>(start[i]) + sign * kStep * direction);
        if (sign > 0) expected += direction * static_cast<double>(gradient[i]);
      }
      f.set_weights(moved);
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
  const std::vector<float> x = to_host(whole.network->input()), y = to_host(whole.network->output()),
                           dy = to_host(whole.network->output_gradient());
  const auto sample = [&](const std::vector<float>& all, std::int64_t n) {
    const auto size = std::ssize(all) / c.x.n;
    return std::vector<float>(all.begin() + n * size, all.begin() + (n + 1) * size);
  };
  std::vector<double> sum(gradient.size(), 0.0);
  for (std::int64_t n = 0; n < c.x.n; ++n) {
    one.samples[0] = whole.samples[static_cast<std::size_t>(n)];
    to_device(sample(x, n), one.network->input());
    to_device(sample(dy, n), one.network->output_gradient());
    const std::vector<float> part = one.gradient();
    for (std::size_t i = 0; i < part.size(); ++i) sum[i] += static_cast<double>(part[i]);
    const std::vector<float> found = to_host(one.network->output()), expected = sample(y, n);
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-5F * (1.0F + std::abs(expected[i]))) << "sample " << n << " element " << i;
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
  using enum Initial::Weights;
  for (const Initial::Weights weights : {kHeNormal, kHeUniform, kGlorotUniform}) {
    const bool glorot = weights == kGlorotUniform, uniform = weights != kHeNormal;
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
    const std::vector<float> weights_and_biases = to_host<float>(network.weights(), network.parameter_elements());
    const float* first = weights_and_biases.data() + weight.offset;
    double sum = 0, squares = 0, largest = 0;
    for (std::int64_t i = 0; i < weight.spec.elements(); ++i) {
      const auto value = static_cast<double>(first[i]);
      sum += value, squares += value * value, largest = std::max(largest, std::abs(value));
    }
    const auto count = static_cast<double>(weight.spec.elements());
    EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(variance / count));
    EXPECT_NEAR(squares / count, variance, 5 * variance * std::sqrt((uniform ? 0.8 : 2) / count));
    const double limit = std::sqrt(3 * variance);
    EXPECT_EQ(largest <= limit, uniform);
    EXPECT_GT(largest, 0.99 * limit);
    const auto start_of = [&](std::size_t parameter) {
      return weights_and_biases.begin() + network.parameters()[parameter].offset;
    };
    EXPECT_TRUE(std::all_of(start_of(1), start_of(1) + 40, [](float bias) { return bias == 0.1F; }));
    EXPECT_EQ(*start_of(3), -2.0F);
  }
}

TEST(Initial, OnesAreFactorsWithoutWeightDecay) {
  ConvOptions options;
  options.filters = options.groups = 5;
  options.initial = {.weights = Initial::Weights::kOnes, .scale = 0.5};
  Graph graph({1, 5, 1, 3, 4});
  graph.add<Conv>("c", options);
  const Context context;
  Network network(graph, {}, context);
  network.initialise(context, 11);
  EXPECT_EQ(to_host<float>(network.weights(), 10), (std::vector<float>{0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0, 0, 0, 0, 0}));
  EXPECT_FALSE(network.parameters()[0].spec.decays);
}

TEST(SpaceToDepth, RefusesWhatBlocksDoNotFill) {
  Graph graph({1, 4, 8, 6, 7});
  EXPECT_THROW(graph.add<SpaceToDepth>("s", 2), Error);
}

TEST(Dropout, MultipliesByItsMask) {
  const std::map<std::string, float> rates = {
      {"dropout", 0.4F}, {"conv_relu_max_drop", 0.5F}, {"conv_average_drop", 0.25F}};
  std::size_t seen = 0;
  for (const cases::LayerCase& c : cases::kLayerCases) {
    const auto rate = rates.find(c.name);
    if (rate == rates.end()) continue;
    ++seen;
    const std::vector<float> without = Fixture(c, {}, false).forward(), with = Fixture(c, {}).forward();
    std::int64_t dropped = 0;
    for (std::size_t i = 0; i < with.size(); ++i) {
      const float kept = without[i] / (1 - rate->second);
      ASSERT_TRUE(with[i] == 0 || std::abs(with[i] - kept) <= 1e-5F * (1 + std::abs(kept)))
          << c.name << " element " << i;
      if (with[i] == 0 && kept != 0) ++dropped;
    }
    EXPECT_GT(dropped, 0) << c.name;
  }
  EXPECT_EQ(seen, rates.size());
}

TEST(Dropout, KeepsTheMeanAndIsOffInEvaluation) {
  const cases::LayerCase c{"dropout", {16, 64, 1, 16, 16}, [](Graph& g) { g.add<Dropout>("o", 0.4F); }};
  Fixture training(c, {}), evaluation(c, {}, false);
  Fixture::fill(training.network->input(), [](std::int64_t) { return 1.0F; });
  Fixture::fill(evaluation.network->input(), [](std::int64_t) { return 1.0F; });
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
