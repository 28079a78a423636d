// Counts of 16 bits as the input of a network.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "device_memory.hpp"
#include "nn/graph.hpp"
#include "nn/layers/counts.hpp"
#include "nn/network.hpp"

namespace petaflow {
namespace {

/// Outputs of the layer for samples (N, D, H, W, C).
std::vector<float> outputs(CountScale scale, const std::vector<std::int16_t>& counts, const Shape& x) {
  Graph graph(x, DType::kI16);
  graph.add<Counts>("counts", scale);
  NetworkOptions options;
  options.batch = x.n;
  options.backward = false;
  const Context context;
  Network network(graph, options, context);
  EXPECT_EQ(network.input().size_bytes(), 2 * counts.size());
  testing_support::to_device(counts, network.input());
  network.refresh(context);
  network.forward(context);
  return testing_support::to_host(network.output());
}

TEST(Counts, TheirLogarithms) {
  const Shape x{2, 3, 5, 7, 9};
  std::vector<std::int16_t> counts(static_cast<std::size_t>(x.elements()));
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<std::int16_t>(i * i * i % 32768);
  const auto y = outputs(CountScale::kLog1p, counts, x);
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], std::log(1.0 + counts[i]), 1e-6 * (1 + std::abs(y[i]))) << counts[i];
  }
}

TEST(Counts, InUnitsOfTheMeanOfEachSample) {
  const Shape x{3, 2, 4, 4, 4};
  const auto size = static_cast<std::size_t>(x.sample_size());
  std::vector<std::int16_t> counts(3 * size);
  for (std::size_t i = 0; i < 2 * size; ++i) counts[i] = static_cast<std::int16_t>(i % 11 * (1 + i / size));
  const auto y = outputs(CountScale::kMean, counts, x);
  for (std::size_t n = 0; n < 2; ++n) {
    const double mean = std::accumulate(&counts[n * size], &counts[n * size] + size, 0.0) / static_cast<double>(size);
    for (std::size_t i = n * size; i < (n + 1) * size; ++i) ASSERT_NEAR(y[i], counts[i] / mean, 1e-5) << i;
  }
  for (std::size_t i = 2 * size; i < 3 * size; ++i) ASSERT_EQ(y[i], 0.0F);  // nothing counted
}

}  // namespace
}  // namespace petaflow
