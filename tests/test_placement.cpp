// Where values lie: concatenations in place, copies with their reasons, memory in closed form, dead memory that is
// filled.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device_memory.hpp"
#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/add.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/concat.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/dense.hpp"
#include "nn/network.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace petaflow {
namespace {

constexpr std::int64_t kBatch = 4;
const Shape kSample{1, 3, 1, 32, 32};

/// c0, then c1, c2, ..., each of which reads all before it, and c at the end, which gives 2 channels.
Graph dense_block(std::int64_t layers, std::int64_t growth) {
  Graph graph(kSample);
  graph.add<Conv>("c0", ConvOptions::same_2d(growth, 3));
  GraphValue all = graph.value();
  for (std::int64_t i = 1; i < layers; ++i) {
    graph.at(all).add<Conv>(fmt::format("c{}", i), ConvOptions::same_2d(growth, 3));
    graph.join<Concat>(fmt::format("all{}", i), {all, graph.value()});
    all = graph.value();
  }
  graph.add<Conv>("c", ConvOptions::same_2d(2, 1));
  return graph;
}

std::vector<std::string> copies(const Network& network) {
  std::vector<std::string> names;
  for (const StageReport& stage : network.report()) {
    if (stage.layers.empty()) names.push_back(stage.name);
  }
  return names;
}

// All concatenations of the block are one memory, written and read in place.
TEST(Placement, ADenseBlockTakesItsChannelsOnce) {
  for (const std::int64_t layers : {2, 4, 8}) {
    constexpr std::int64_t kGrowth = 8;
    const Network network(dense_block(layers, kGrowth), {.batch = kBatch, .kernels = {}, .runs = false}, Context{});
    EXPECT_EQ(copies(network), std::vector<std::string>()) << layers;
    std::size_t scratch = 0;
    for (const StageReport& stage : network.report()) {
      EXPECT_EQ(stage.saved_bytes, 0U) << stage.name;
      scratch = std::max(scratch, stage.scratch_bytes);
    }
    // Input, values with their gradients, output with its gradient, weights; and of all scratch the largest.
    const auto map_bytes = static_cast<std::size_t>(kBatch * kSample.pixels()) * sizeof(float);
    const auto channels = static_cast<std::size_t>(kSample.c + 2 * layers * kGrowth + 2 * 2);
    const std::size_t bytes =
        channels * map_bytes + static_cast<std::size_t>(network.parameter_elements()) * sizeof(float) + scratch;
    constexpr std::size_t kPages = 16 * 4096;  // of gaps and rounding
    std::size_t end = 0;
    for (const BlockReport& block : network.blocks()) end = std::max(end, block.offset + block.size_bytes);
    EXPECT_LE(end, bytes + kPages) << layers;
    EXPECT_GE(end, channels * map_bytes) << layers;
  }
}

TEST(Placement, CopiesSayWhy) {
  Graph graph(kSample);
  graph.add<Conv>("a", ConvOptions::same_2d(4, 3));
  const GraphValue a = graph.value();
  graph.join<Concat>("first", {Graph::input(), a});
  const GraphValue first = graph.value();
  graph.at(a).add<Conv>("b", ConvOptions::same_2d(4, 3));
  const GraphValue b = graph.value();
  graph.mark_output();
  graph.join<Concat>("second", {a, b});
  const GraphValue second = graph.value();
  graph.join<Concat>("third", {first, second});
  const GraphValue third = graph.value();
  graph.at(a).add<Dense>("d", 5).mark_output();
  graph.at(third).add<Conv>("c", ConvOptions::same_2d(2, 1)).mark_output();
  const Network network(graph, {.batch = kBatch, .kernels = {}, .runs = false}, Context{});
  std::vector<std::string> reasons;
  for (const StageReport& stage : network.report()) {
    if (!stage.layers.empty()) continue;
    EXPECT_EQ(stage.refusals.size(), 1U) << stage.name;
    reasons.insert(reasons.end(), stage.refusals.begin(), stage.refusals.end());
  }
  EXPECT_EQ(reasons,
            (std::vector<std::string>{
                "copy of input for first: it is the network's input", "copy of a for second: it lies in first",
                "copy of b for second: it is an output of the network", "copy of a for d: d takes whole pixels"}));
}

// Batch norm reads and writes the numbers of 16 bits that convolutions take.
TEST(Placement, NothingIsConvertedAroundBatchNorm) {
  Graph graph(kSample);
  graph.add<Conv>("a", ConvOptions::same_2d(8, 3)).add<BatchNorm>("an").add<Relu>("ar");
  graph.add<Conv>("b", ConvOptions::same_2d(8, 3)).add<BatchNorm>("bn").add<Relu>("br");
  graph.add<Conv>("c", ConvOptions::same_2d(8, 3));
  const Network network(graph, {.batch = kBatch, .precision = DType::kBf16, .kernels = {}, .runs = false}, Context{});
  for (const std::string& copy : copies(network)) {
    EXPECT_TRUE(copy == "to bf16 for a" || copy == "to f32 for output") << copy;  // at the network's ends
  }
  const auto map_bytes = static_cast<std::size_t>(8 * kBatch * kSample.pixels()) * 2;
  std::map<std::string, std::size_t> sizes;
  for (const BlockReport& block : network.blocks()) sizes[block.name] = block.size_bytes;
  for (const char* name : {"a output", "an output", "b output", "bn output"}) EXPECT_EQ(sizes[name], map_bytes) << name;
}

// Where the stage that writes a gradient is the last one that reads the value, the gradient lies in its place.
TEST(Placement, GradientsTakeThePlaceOfTheirValues) {
  const auto gradients = [](bool around, std::int64_t recompute) {
    Graph graph(kSample);
    const GraphValue a = graph.add<Conv>("a", ConvOptions::same_2d(8, 3)).value();
    graph.add<BatchNorm>("an").add<Relu>("ar");
    graph.add<Conv>("b", ConvOptions::same_2d(8, 3));
    if (around) graph.join<Add>("sum", {graph.value(), a});
    graph.add<Conv>("c", ConvOptions::same_2d(8, 3));
    const NetworkOptions options{.batch = kBatch, .recompute = recompute, .kernels = {}, .runs = false};
    std::vector<std::string> names;
    for (const BlockReport& block : Network(graph, options, Context{}).blocks()) {
      if (block.name.ends_with(" gradient")) names.push_back(block.name);
    }
    return names;
  };
  const std::vector<std::string> of_output = {"c output gradient"};
  EXPECT_EQ(gradients(false, 1), of_output);
  EXPECT_EQ(gradients(false, kRecomputeMemoryBound), of_output);
  // The sum gives a its gradient before the batch norm has read a.
  EXPECT_EQ(gradients(true, 1), (std::vector<std::string>{"a output gradient", "c output gradient"}));
}

// Other tests rely on it: what is read too late, or before it is written, is NaN, or refused by AddressSanitizer.
TEST(Placement, NetworksUnderTestFillDeadMemory) {
#ifdef PETAFLOW_GUARDED
  GTEST_SKIP() << "guarded memory refuses by itself to be read where it is dead";
#endif
  Context context;
  Network network(dense_block(3, 8), {.batch = kBatch, .kernels = {}, .fills_dead = true}, context);
  network.initialise(context, 1);
  network.forward(context);
  const testing_support::DeviceArray<float> gradient(
      std::vector<float>(static_cast<std::size_t>(network.parameter_elements())));
  network.backward(context, gradient.data());
  const auto blocks = network.blocks();
  const int now = network.moments() - 1;
  const auto input = std::ranges::find(blocks, "input", &BlockReport::name);
  const auto* base = static_cast<const std::byte*>(network.input().data) - input->offset;
  int looked_at = 0;
  for (const BlockReport& dead : blocks) {
    const bool covered = std::ranges::any_of(blocks, [&](const BlockReport& other) {
      return other.last >= now && other.offset < dead.offset + dead.size_bytes &&
             dead.offset < other.offset + other.size_bytes;
    });
    if (covered) continue;  // or alive itself
    ++looked_at;
    const auto* values = reinterpret_cast<const float*>(base + dead.offset);
#if defined(__SANITIZE_ADDRESS__)
    EXPECT_TRUE(__asan_address_is_poisoned(values)) << dead.name;
#else
    const auto elements = static_cast<std::int64_t>(dead.size_bytes / sizeof(float));
    const std::vector<float> found = testing_support::to_host<float>(values, elements);
    EXPECT_TRUE(std::ranges::all_of(found, [](float value) { return std::isnan(value); })) << dead.name;
#endif
  }
  EXPECT_GT(looked_at, 0);
}

}  // namespace
}  // namespace petaflow
