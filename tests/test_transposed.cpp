// Transposed convolutions take the fast ways of the convolutions whose passes they exchange: tiles in cache, Winograd.
#include <cstdint>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "nn/graph.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/deconv.hpp"
#include "nn/network.hpp"

namespace petaflow {
namespace {

constexpr std::int64_t kChannels = 64;

StageReport report_of(const Graph& graph) {
  const Network network(graph, {.batch = 2, .kernels = {}, .runs = false}, Context{});
  return network.report().front();
}

StageReport transposed(std::int64_t kernel, std::int64_t stride) {
  Graph graph({1, kChannels, 1, 96, 144});
  DeconvOptions options;
  options.filters = kChannels;
  options.kernel = {1, kernel, kernel};
  options.stride = {1, stride, stride};
  options.pad = {0, kernel / 2, kernel / 2};
  graph.add<Deconv>("deconv", options);
  return report_of(graph);
}

bool has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

TEST(Transposed, TakesWhatAConvolutionTakes) {
  Graph graph({1, kChannels, 1, 96, 144});
  graph.add<Conv>("conv", ConvOptions::same_2d(kChannels, 3));
  const StageReport conv = report_of(graph);  // with what this machine has
  for (const auto& [kernel, stride] : {std::pair(3, 1), std::pair(3, 2), std::pair(5, 2)}) {
    const StageReport report = transposed(kernel, stride);
    SCOPED_TRACE(fmt::format("{} taps, stride {}: {}; {}", kernel, stride, report.forward, report.backward_weights));
    EXPECT_EQ(has(report.forward, "tiles"), has(conv.forward, "tiles"));
    EXPECT_EQ(has(report.backward_weights, "tiles"), has(conv.backward_weights, "tiles"));
    // Three taps of stride 2 leave two taps or one for a pixel: nothing for transforms to share.
    if (stride == 1 || kernel == 5) {
      EXPECT_EQ(has(report.forward, "winograd"), has(conv.forward, "winograd"));
    }
  }
}

}  // namespace
}  // namespace petaflow
