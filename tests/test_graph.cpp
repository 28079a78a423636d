// Networks drawn at random against what they compute in f64, node by node: values, gradients, memory, recomputation.
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "device_memory.hpp"
#include "graph_reference.hpp"
#include "layer_cases.hpp"
#include "memory_plan_reference.hpp"
#include "nn/network.hpp"
#include "rounding_bounds.hpp"

namespace petaflow {
namespace {

using testing_support::Array;
using testing_support::DeviceArray;
using testing_support::DeviceState;
using testing_support::plan_over_bound;
using testing_support::RandomNetwork;
using testing_support::ReferenceNode;
using testing_support::to_device;
using testing_support::to_host;

constexpr std::int64_t kBatch = 2;

/// A network with the reference's weights, input and output gradients in it.
struct Built {
  /// @param reference  before its backward pass
  Built(const RandomNetwork& reference, NetworkOptions options) {
    options.batch = kBatch;
    options.fills_dead = true;
    StepState state;
    state.sample = samples.data();
    step.set(state);
    context.step = step.data();
    network = std::make_unique<Network>(reference.graph, options, context);
    for (const auto& [offset, values] : parameters(reference, &ReferenceNode::parameters)) {
      to_device(std::vector<float>(values.begin(), values.end()), network->weights() + offset);
    }
    network->refresh(context);
    fill(network->input(), reference.arrays[0].shape, reference.arrays[0].values);
    fill_gradients(reference);
  }

  /// Backward passes add to the gradients of outputs that others use.
  void fill_gradients(const RandomNetwork& reference) const {
    const auto outputs = reference.graph.outputs();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Array& y = reference.arrays[outputs[i].index];
      if (network->output_gradient(i).data != nullptr) fill(network->output_gradient(i), y.shape, y.gradient);
    }
  }

  /// (offset into the flat arrays, values) of each node with trained parameters, which come first in the layer's.
  std::vector<std::pair<std::int64_t, std::vector<double>>> parameters(
      const RandomNetwork& reference, std::vector<double> ReferenceNode::* what) const {
    std::vector<std::pair<std::int64_t, std::vector<double>>> result;
    for (std::size_t i = 0; i < reference.nodes.size(); ++i) {
      const auto first = std::ranges::find(network->parameters(), i, &Parameter::layer);
      if (first != network->parameters().end()) result.emplace_back(first->offset, reference.nodes[i].*what);
    }
    return result;
  }

  static void fill(const Tensor& tensor, const Shape& s, const std::vector<double>& values) {
    std::vector<float> in_memory(values.size());
    visit(s, [&](std::size_t planar, std::size_t memory) { in_memory[memory] = static_cast<float>(values[planar]); });
    to_device(in_memory, tensor);
  }
  /// f(index in the order (N, C, H, W), index in memory).
  template <class F>
  static void visit(const Shape& s, const F& f) {
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t c = 0; c < s.c; ++c)
        for (std::int64_t p = 0; p < s.pixels(); ++p)
          f(static_cast<std::size_t>((n * s.c + c) * s.pixels() + p),
            static_cast<std::size_t>((n * s.pixels() + p) * s.c + c));
  }

  std::vector<float> backward() {
    network->forward(context);
    if (float* const planned = network->gradient(); planned != nullptr) {
      network->backward(context, planned);
      return to_host(planned, network->parameter_elements());
    }
    const DeviceArray<float> gradient(
        std::vector<float>(static_cast<std::size_t>(network->parameter_elements()), std::nanf("")));
    network->backward(context, gradient.data());
    return gradient.get();
  }

  Context context;
  DeviceState step;
  DeviceArray<std::int64_t> samples{std::vector<std::int64_t>(kBatch, 0)};
  std::unique_ptr<Network> network;
};

/// Relative difference in L2.
class Difference {
 public:
  void add(double value, double expected) {
    error_ += (value - expected) * (value - expected);
    norm_ += expected * expected;
    bad_ = bad_ || !std::isfinite(value);
  }
  double relative() const { return bad_ ? INFINITY : std::sqrt(error_ / std::max(norm_, 1e-20)); }

 private:
  double error_ = 0, norm_ = 0;
  bool bad_ = false;
};

double output_difference(const RandomNetwork& reference, const Network& network) {
  double worst = 0;
  const auto outputs = reference.graph.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Difference difference;
    const Array& y = reference.arrays[outputs[i].index];
    const std::vector<float> values = to_host(network.output(i));
    Built::visit(y.shape, [&](std::size_t planar, std::size_t memory) {
      difference.add(static_cast<double>(values[memory]), y.values[planar]);
    });
    worst = std::max(worst, difference.relative());
  }
  return worst;
}

/// Behind batch norm gradients that cancel are noise: the whole gradient is what an update sees.
double gradient_difference(const RandomNetwork& reference, const Built& built, const std::vector<float>& gradient) {
  Difference all;
  for (const auto& [offset, values] : built.parameters(reference, &ReferenceNode::gradient)) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      all.add(static_cast<double>(gradient[static_cast<std::size_t>(offset) + i]), values[i]);
    }
  }
  return all.relative();
}

/// The networks with such a seed, but for those with an activation or a maximum that rounding may decide.
constexpr std::uint32_t kNetworks = 560;
bool is_clear(const RandomNetwork& reference) { return reference.margin > 1e-5; }

/// How many of the random networks have a layer of each kind, or something else that is named.
class Drawn {
 public:
  void add(const std::string& what) { ++counts_[what]; }
  void add(const RandomNetwork& network) {
    constexpr std::size_t kFolder = std::string_view("part/").size();
    std::set<std::string> kinds;
    for (const Graph::Node& node : network.graph.nodes()) {
      kinds.insert(node.name.substr(kFolder, node.name.find_last_not_of("0123456789") + 1 - kFolder));
    }
    for (const std::string& kind : kinds) add(kind);
    if (network.nested > 0) add("concat of concat");
    if (network.strided > 0) add("residual with stride");
    if (network.graph.outputs().size() > 1) add("several outputs");
  }
  /// Prints all counts and holds some to a least.
  void expect(const std::map<std::string, int>& least) const {
    std::string text;
    for (const auto& [what, count] : counts_) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
    fmt::print("drawn: {}\n", text);
    for (const auto& [what, count] : least) {
      const auto found = counts_.find(what);
      EXPECT_GE(found == counts_.end() ? 0 : found->second, count) << what;
    }
  }

 private:
  std::map<std::string, int> counts_;
};

/// Two passes of a network that makes values again, and has its gradient in their place, give the bits of one that
/// keeps both.
void expect_same_bits(const RandomNetwork& reference, Built& again, const std::vector<float>& kept) {
  for (int pass = 0; pass < 2; ++pass) {
    const std::vector<float> gradient = again.backward();
    again.fill_gradients(reference);
    for (const auto& [offset, values] : again.parameters(reference, &ReferenceNode::gradient)) {
      const auto first = static_cast<std::size_t>(offset);
      for (std::size_t i = first; i < first + values.size(); ++i) ASSERT_EQ(gradient[i], kept[i]) << i;
    }
  }
}

// Every second one also with values that are made again.
TEST(Graph, RandomNetworksAgreeWithTheReferenceAndRecomputed) {
  Drawn drawn;
  for (std::uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomNetwork reference(seed, kBatch);
    reference.forward();
    const bool recomputes = seed % 2 == 0, compares = is_clear(reference);
    if (!recomputes && !compares) continue;
    drawn.add(reference);
    NetworkOptions options;
    options.fixed_order = recomputes;
    Built built(reference, options);
    const std::vector<float> gradient = built.backward();
    if (recomputes) {
      options.recompute =
          std::array{kRecomputeMemoryBound, std::int64_t{2}, std::int64_t{3}, std::int64_t{4}}[seed / 2 % 4];
      options.plans_gradient = true;
      Built again(reference, options);
      ASSERT_NO_FATAL_FAILURE(expect_same_bits(reference, again, gradient));
      ASSERT_LE(plan_over_bound(*again.network, planned_bytes), 1.1);
      ASSERT_LE(compares ? output_difference(reference, *again.network) : 0, 1e-5);
      drawn.add(fmt::format("in {} segments", options.recompute));
      if (std::ranges::any_of(again.network->report(), &StageReport::again)) drawn.add("made again");
    }
    if (!compares) continue;
    drawn.add("compared");
    reference.backward();
    ASSERT_LE(output_difference(reference, *built.network), 1e-5);
    ASSERT_LE(gradient_difference(reference, built, gradient), 2e-5);
    const testing_support::MomentsOfUse uses(reference.graph, *built.network, kBatch);
    for (const BlockReport& block : built.network->blocks()) EXPECT_TRUE(uses.contain(block)) << block.name;
    ASSERT_LE(plan_over_bound(*built.network, planned_bytes), 1.1);  // in pages: 1.018 found
  }
  drawn.expect({{"compared", 500},
                {"conv", 500},
                {"relu", 400},
                {"pool", 300},
                {"norm", 250},
                {"add", 400},
                {"concat", 250},
                {"concat of concat", 150},
                {"residual with stride", 150},
                {"several outputs", 300},
                {"fork", 90},
                {"in 0 segments", 70},
                {"in 2 segments", 70},
                {"in 3 segments", 70},
                {"in 4 segments", 70},
                {"made again", 120}});
}

TEST(Graph, PlansOfLargeBatchesAreNearTheLowerBound) {
  NetworkOptions options;
  options.batch = 1024;  // blocks of megabytes: what pages add is nothing
  options.runs = false;
#ifdef NDEBUG
  constexpr std::uint32_t kEach = 1;
#else
  constexpr std::uint32_t kEach = 10;  // sanitizers take ten times as long
#endif
  for (std::uint32_t seed = 0; seed < kNetworks; seed += kEach) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Network network(RandomNetwork(seed, kBatch).graph, options, Context{});
    EXPECT_LE(plan_over_bound(network, std::identity()), 1.1);  // 1.127 without exchanges in the order of blocks
  }
}

/// Holds networks in bf16 to the reference; returns the bounds of their gradients, rising.
std::vector<double> compare_in_bf16(bool smooth) {
  std::vector<double> all;
  for (std::uint32_t seed = 0; seed < kNetworks; seed += 8) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomNetwork reference(seed, kBatch, smooth);
    reference.forward();
    if (!is_clear(reference)) continue;
    NetworkOptions options;
    options.precision = DType::kBf16;
    Built built(reference, options);
    reference.backward();
    const std::vector<float> gradient = built.backward();
    const testing_support::RoundingBounds bounds =
        testing_support::rounding_bounds(reference.graph, built.network->report());
    // A value and half of it with the other sign, which Fork gives, add up to half with sqrt(5) times the relative
    // error.
    EXPECT_LE(output_difference(reference, *built.network), 2.3 * bounds.values);
    EXPECT_LE(gradient_difference(reference, built, gradient), bounds.gradient);
    all.push_back(bounds.gradient);
  }
  std::ranges::sort(all);
  return all;
}

TEST(Graph, RandomNetworksAgreeInBf16) {
  const std::vector<double> bounds = compare_in_bf16(false);
  ASSERT_GE(bounds.size(), 60U);
  EXPECT_LT(bounds.back(), 0.9) << "zeros would do";
}

// Where no rounding decides which way a gradient goes, the bound is that of the roundings alone.
TEST(Graph, SmoothRandomNetworksAgreeTightlyInBf16) {
  const std::vector<double> bounds = compare_in_bf16(true);
  ASSERT_GE(bounds.size(), 60U);
  EXPECT_LE(bounds[bounds.size() / 2], 0.012);
  EXPECT_LE(bounds.back(), 0.02);
}

TEST(Graph, RefusesWhatCannotBe) {
  const auto message = [](const std::function<void()>& f) {
    try {
      f();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  Graph graph({1, 3, 1, 8, 8});
  graph.add<Conv>("a", ConvOptions::same_2d(4, 3));
  const GraphValue a = graph.value();
  EXPECT_EQ(message([&] { graph.join<Add>("sum", {a, Graph::input()}); }),
            "layer sum: values of (1, 4, 8, 8) and (1, 3, 8, 8) cannot be added");
  EXPECT_EQ(message([&] { graph.add<Add>("sum"); }), "layer sum: adds two values, found 1");
  graph.add<Pool>("p", Pool::square(PoolKind::kMax, 2));
  EXPECT_EQ(message([&] { graph.join<Concat>("c", {graph.value(), a}); }),
            "layer c: values of (1, 4, 4, 4) and (1, 4, 8, 8) cannot be concatenated");
  graph.at(a).add<Relu>("r");
  EXPECT_EQ(message([&] { Network(graph, {}, Context{}); }),
            "layer p: nothing uses what it gives, and it is no output of the network; remove the layer, or mark its "
            "value as an output (Graph::mark_output)");
}

}  // namespace
}  // namespace petaflow
