// Sums that a convolution's stage takes into its epilogue, against the same network in which they are stages of their
// own, because what the convolution gives is an output too.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "conv_request.hpp"
#include "layer_fixture.hpp"
#include "nn/conv_tuning.hpp"
#include "op_support.hpp"
#include "rounding_bounds.hpp"

namespace petaflow {
namespace {

using cases::conv;
using testing_support::Fixture;
using testing_support::to_host;

struct ResidualCase {
  const char* name;
  std::vector<std::string> stages;                     // with sums
  std::function<std::vector<GraphValue>(Graph&)> add;  // gives the convolutions in front of the sums
};

GraphValue convolve(Graph& g, const std::string& name, std::int64_t filters) {
  return g.add<Conv>(name, conv(filters, {1, 3, 3}, {0, 1, 1})).value();
}

const ResidualCase kResidualCases[] = {
    {"around_two_with_pooling",
     {"c + add + leaky relu + max pool"},
     [](Graph& g) {
       const GraphValue a = convolve(g, "a", 8);
       g.add<Relu>("r");
       convolve(g, "b", 8);
       const GraphValue last = convolve(g, "c", 8);
       g.join<Add>("s", {last, a}).add<Relu>("t", 0.2F).add<Pool>("p", Pool::square(PoolKind::kMax, 2));
       return std::vector{last};
     }},
    {"of_the_same_value",
     {"b + add + relu"},
     [](Graph& g) {
       const GraphValue a = convolve(g, "a", 8), last = convolve(g, "b", 8);
       g.join<Add>("s", {a, last}).add<Relu>("t");
       return std::vector{last};
     }},
    {"of_one_value_in_two_sums",
     {"b + add", "c + add + relu"},
     [](Graph& g) {
       const GraphValue a = convolve(g, "a", 8);
       g.add<Relu>("r");
       const GraphValue b = convolve(g, "b", 8);
       g.join<Add>("s", {b, a});
       const GraphValue last = convolve(g, "c", 8);
       g.join<Add>("t", {a, last}).add<Relu>("u");
       return std::vector{b, last};
     }},
    {"of_a_slice",
     {"c + add + relu"},
     [](Graph& g) {
       const GraphValue a = convolve(g, "a", 8), b = convolve(g, "b", 5);
       g.join<Concat>("ab", {b, a});
       const GraphValue last = convolve(g, "c", 8);
       g.join<Add>("s", {last, a}).add<Relu>("t");
       return std::vector{last};
     }},
    {"behind_a_transposed_convolution",
     {"d + add + relu"},
     [](Graph& g) {
       const GraphValue a = convolve(g, "a", 8);
       g.add<Pool>("p", Pool::square(PoolKind::kMax, 2));
       DeconvOptions up;
       up.filters = 8, up.kernel = {1, 3, 3}, up.stride = {1, 2, 2}, up.pad = {0, 1, 1}, up.output_padding = {0, 1, 1};
       const GraphValue last = g.add<Deconv>("d", up).value();
       g.join<Add>("s", {last, a}).add<Relu>("t");
       return std::vector{last};
     }},
};

void PrintTo(const ResidualCase& c, std::ostream* out) { *out << c.name; }

struct Result {
  std::vector<double> y, gradient;
  std::vector<std::string> stages;
  Fixture::Saved decided;  // signs and maxima
  testing_support::RoundingBounds bounds;
};

/// @param decided  instead of the signs and maxima of the forward pass
Result run(const ResidualCase& c, bool apart, const NetworkOptions& options, ConvTuning* tuning = nullptr,
           const Fixture::Saved* decided = nullptr) {
  const cases::LayerCase layers{c.name, {2, 6, 1, 24, 14}, [&](Graph& g) {
                                  const std::vector<GraphValue> convolutions = c.add(g);
                                  if (!apart) return;
                                  g.mark_output();
                                  for (const GraphValue value : convolutions) g.at(value).mark_output();
                                }};
  Fixture f(layers, options, true, HostSpace().concurrency(), tuning);
  for (std::size_t i = 1; i < f.network->outputs(); ++i) {
    Fixture::fill(f.network->output_gradient(i), [](std::int64_t) { return 0.0F; });
  }
  const std::vector<float> y = f.forward();
  Result result;
  result.y.assign(y.begin(), y.end());
  result.decided = f.saved();
  const std::vector<float> gradient = f.gradient(decided);
  result.gradient.assign(gradient.begin(), gradient.end());
  for (const StageReport& stage : f.network->report()) result.stages.push_back(stage.name);
  Graph graph(layers.x);
  layers.add(graph);
  result.bounds = testing_support::rounding_bounds(graph, f.network->report());
  return result;
}

class Residuals : public testing::TestWithParam<ResidualCase> {};

TEST_P(Residuals, ArePartOfTheConvolutionsStage) {
  for (const bool tiles : {true, false}) {
    SCOPED_TRACE(tiles ? "in tiles" : "whole");
    const NetworkOptions options{.kernels = {.tiles = tiles}};
    const Result apart = run(GetParam(), true, {.kernels = {}}), taken = run(GetParam(), false, options);
    for (const std::string& stage : GetParam().stages) EXPECT_TRUE(std::ranges::count(taken.stages, stage)) << stage;
    EXPECT_LT(taken.stages.size(), apart.stages.size());
    EXPECT_LE(testing_support::relative_l2(taken.y, apart.y), 1e-6);
    EXPECT_LE(testing_support::relative_l2(taken.gradient, apart.gradient), 5e-6);
    // In bf16 a sum apart has operands that were rounded: there it is the same stage in f32 that is compared.
    NetworkOptions in_bf16 = options;
    in_bf16.precision = DType::kBf16;
    const Result bf16 = run(GetParam(), false, in_bf16, nullptr, &taken.decided);
    for (const std::string& stage : GetParam().stages) EXPECT_TRUE(std::ranges::count(bf16.stages, stage)) << stage;
    // Of waves, sums may be no larger than each operand: the errors of both count.
    EXPECT_LE(testing_support::relative_l2(bf16.y, taken.y), std::sqrt(2.0) * bf16.bounds.values);
    EXPECT_LE(testing_support::relative_l2(bf16.gradient, taken.gradient), bf16.bounds.rounded);
    EXPECT_LT(bf16.bounds.rounded, 0.05);
  }
}

TEST_P(Residuals, AreTimedWithTheStage) {
  ConvTuning tuning;
  const Result apart = run(GetParam(), true, {.kernels = {}}),
               tuned = run(GetParam(), false, {.kernels = {.conv = testing_support::conv_request("tune")}}, &tuning);
  EXPECT_TRUE(std::ranges::any_of(
      tuning.table, [](const auto& entry) { return entry.first.find(", residual") != std::string::npos; }));
  EXPECT_LE(testing_support::relative_l2(tuned.y, apart.y), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, Residuals, testing::ValuesIn(kResidualCases),
                         [](const testing::TestParamInfo<ResidualCase>& test) { return std::string(test.param.name); });

// No backward pass reads what a sum adds: its memory is free as soon as the sum is made.
TEST(Residual, IsNotKept) {
  Graph graph(Shape{1, 8, 1, 32, 32});
  convolve(graph, "a", 8);
  const GraphValue pooled = graph.add<Pool>("p", Pool::square(PoolKind::kAverage, 2)).value();
  graph.add<Relu>("r");
  const GraphValue last = convolve(graph, "c", 8);
  graph.join<Add>("s", {last, pooled});
  const Network network(graph, {.batch = 2, .kernels = {}}, Context{});
  const auto blocks = network.blocks();
  const auto block = std::ranges::find(blocks, std::string("a output"), &BlockReport::name);
  ASSERT_NE(block, blocks.end());
  EXPECT_LT(block->last, 3) << block->alive;
}

}  // namespace
}  // namespace petaflow
