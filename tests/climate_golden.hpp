// Networks for maps of weather with reduced widths beside PyTorch: what tests/golden/make_climate_golden.py repeats.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "golden_network.hpp"
#include "nn/network.hpp"
#include "nn/objective.hpp"
#include "op_support.hpp"
#include "update/optimizer.hpp"

namespace petaflow::testing_support {

inline constexpr std::int64_t kGoldenBatch = 2, kGoldenHeight = 64, kGoldenWidth = 96;

// Every layer's result is an output.
inline Graph with_all_outputs(const Graph& whole) {
  Graph graph(whole.sample());
  for (const Graph::Node& n : whole.nodes()) graph.join<Borrowed>(n.name, n.inputs, *n.layer).mark_output();
  return graph;
}

// Of what is trained, in the order of the graph: matrices of numbers of He's variance, small biases, factors near 1.
inline std::vector<float> first_weights(const Network& network, std::vector<float> weights) {
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

inline void set_first_weights(const Context& context, Network& network) {
  network.initialise(context, 1);
  to_device(first_weights(network, to_host<float>(network.weights(), network.parameter_elements())), network.weights());
  network.refresh(context);
}

// The second sample's numbers are twice as large.  Batch norm of one number of each of two samples divides by their
// difference: where samples are alike, roundings decide about it.
inline void fill_fields(const Tensor& x) {
  const Shape& s = x.shape;
  std::vector<float> values(static_cast<std::size_t>(s.elements()));
  for (std::int64_t i = 0; i < s.elements(); ++i) {
    const std::int64_t pixel = i % s.pixels(), c = i / s.pixels() % s.c, n = i / s.pixels() / s.c;
    values[static_cast<std::size_t>((n * s.pixels() + pixel) * s.c + c)] =
        static_cast<float>(n + 1) * number(static_cast<std::uint32_t>(i), 100);
  }
  to_device(values, x);
}

/// Compares a network with what the golden file has under a name.
class GoldenClimate {
 public:
  explicit GoldenClimate(const std::string& name) {
    std::ifstream file("tests/golden/climate.json");
    golden_ = nlohmann::json::parse(file)[name];
    context_.threads = Kokkos::DefaultHostExecutionSpace().concurrency();
    context_.training = true;
    state_.weight = weights_.data();
    state_.sample = samples_.data();
    state_.loss_scale = 1.0F / kGoldenBatch;
    context_.step = device_state_.data();
    device_state_.set(state_);
  }

  void expect_layers(const Graph& whole) {
    const Graph opened = with_all_outputs(whole);
    Network network(opened, {.batch = kGoldenBatch, .kernels = {}}, context_);
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

  /// Steps of SGD with a momentum of 0.9; of the gradients those of the first one.
  /// @param targets  of the objective, in the memory of devices
  void expect_steps(const Graph& graph, const Objective& objective, std::span<const void* const> targets, double rate) {
    constexpr std::size_t kSteps = 10;
    Network network(graph, {.batch = kGoldenBatch, .kernels = {}}, context_);
    set_first_weights(context_, network);
    fill_fields(network.input());
    std::vector<Tensor> outputs, output_gradients;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < network.outputs(); ++i) {
      outputs.push_back(network.output(i));
      output_gradients.push_back(network.output_gradient(i));
      shapes.push_back(outputs.back().shape);
    }
    ObjectiveRun losses(objective, shapes);
    const DeviceArray<float> gradient(static_cast<std::size_t>(network.parameter_elements()));
    OptimizerOptions options;
    options.name = "sgd", options.lr = rate, options.momentum = 0.9;
    Optimizer optimizer(options, network.parameters());
    state_.learning_rate = static_cast<float>(options.lr);
    ASSERT_EQ(golden_["losses"].size(), kSteps);
    for (std::size_t step = 0; step < kSteps; ++step, ++state_.step) {
      device_state_.set(state_);
      network.forward(context_);
      losses.run(context_, targets, outputs, {}, output_gradients);
      context_.space.fence();
      const std::span<const double> of_samples = losses.losses();
      const double loss = std::accumulate(of_samples.begin(), of_samples.end(), 0.0) / kGoldenBatch;
      expect_digest(golden_["outputs"][step], to_host(network.output()), fmt::format("output of step {}", step));
      network.backward(context_, gradient.data());
      if (step == 0) expect_gradients(network, gradient.data());
      optimizer.step(context_, 0, network.parameter_elements(), gradient.data(), network.weights());
      network.refresh(context_);
      const double expected = golden_["losses"][step].get<double>();
      EXPECT_NEAR(loss, expected, 1e-4 * expected) << "step " << step;
    }
  }

 private:
  void expect_gradients(const Network& network, const float* gradient) {
    std::size_t index = 0;
    double largest = 0;  // root mean square of a gradient; what is far smaller may be the rest of sums that cancel
    for (const auto& digest : golden_["gradients"]) largest = std::max(largest, digest[0].get<double>());
    for (const Parameter& p : network.parameters()) {
      if (!p.spec.trained()) continue;
      ASSERT_LT(index, golden_["gradients"].size());
      expect_digest(golden_["gradients"][index++], to_host<float>(gradient + p.offset, p.spec.elements()), p.name,
                    0.2 * largest);
    }
    EXPECT_EQ(index, golden_["gradients"].size());
  }

  nlohmann::json golden_;
  Context context_;
  StepState state_;
  DeviceState device_state_;
  DeviceArray<float> weights_{std::vector<float>(kGoldenBatch, 1.0F)};
  DeviceArray<std::int64_t> samples_{kGoldenBatch};
};

}  // namespace petaflow::testing_support
