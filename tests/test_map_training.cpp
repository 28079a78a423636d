// Training steps of networks of maps (U-shaped, dense, residual, pyramid) by softmax cross-entropy at every pixel
// follow PyTorch's losses.
#include <cmath>
#include <fstream>
#include <memory>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "layer_fixture.hpp"
#include "nn/objective.hpp"
#include "op_support.hpp"
#include "update/optimizer.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::Fixture;

/// Numbers as if each had been rounded to the eight bits of bf16.
std::vector<float> perturbed(std::vector<float> values, std::mt19937& random) {
  std::uniform_real_distribution<float> rounding(-0x1p-8F, 0x1p-8F);
  for (float& value : values) value *= 1 + rounding(random);
  return values;
}

/// Losses of steps by SGD with momentum, as train() of tests/golden/make_layer_golden.py makes them.
/// @param noise  if not 0, the seed of roundings of the inputs and weights that each step computes with
std::vector<double> train(const cases::LayerCase& c, const NetworkOptions& options, std::size_t steps,
                          std::uint32_t noise = 0) {
  Fixture f(c, options);
  Network& network = *f.network;
  const Shape y = network.output().shape;
  const DeviceArray<float> weight(std::vector<float>(static_cast<std::size_t>(y.n), 1.0F));
  f.state.weight = weight.data();
  f.state.loss_scale = 1 / static_cast<float>(y.n);
  f.state.learning_rate = 0.1F;
  std::vector<std::uint8_t> classes;
  for (std::int64_t i = 0; i < y.n * y.pixels(); ++i) classes.push_back(static_cast<std::uint8_t>(7 * i / 3 % y.c));
  const DeviceArray<std::uint8_t> map(classes);
  const Objective objective("map", std::make_shared<PixelSoftmaxLoss>());
  ObjectiveRun loss(objective, std::vector{y});
  Optimizer optimizer({.name = "sgd", .momentum = 0.9}, network.parameters());
  const auto elements = static_cast<std::size_t>(network.parameter_elements());
  const DeviceArray<float> gradient(elements);
  std::mt19937 random(noise);
  const std::vector<float> x = testing_support::to_host(network.input());
  std::vector<double> losses;
  for (std::size_t step = 0; step < steps; ++step) {
    const std::vector<float> weights = f.weights();
    if (noise > 0) {
      testing_support::to_device(perturbed(x, random), network.input());
      f.set_weights(perturbed(weights, random));
    }
    f.forward();
    loss.run(f.context, std::vector<const void*>{map.data()}, std::vector{network.output()}, {},
             std::vector{network.output_gradient()});
    f.context.space.fence();
    double sum = 0;
    for (const double of_sample : loss.losses()) sum += of_sample;
    losses.push_back(sum / static_cast<double>(y.n));
    network.backward(f.context, gradient.data());
    std::vector<float> trained = gradient.get();
    for (const Parameter& p : network.parameters()) {
      if (p.name == "probe/shift") std::fill_n(trained.begin() + p.offset, p.spec.elements(), 0.0F);
    }
    testing_support::to_device(trained, gradient.data());
    testing_support::to_device(weights, network.weights());
    optimizer.step(f.context, 0, network.parameter_elements(), gradient.data(), network.weights());
    network.refresh(f.context);
    ++f.state.step;
  }
  return losses;
}

/// What roundings of inputs and weights change of the loss of each step, relative, at the most in five trials; bf16
/// rounds a convolution's sum and result as well, and all of that backward once more: six roundings for one here.
std::vector<double> effect_of_roundings(const cases::LayerCase& c, const std::vector<double>& expected) {
  std::vector<double> effect(expected.size(), 0.0);
  for (std::uint32_t trial = 1; trial <= 5; ++trial) {
    const std::vector<double> found = train(c, {.kernels = {}}, expected.size(), trial);
    double largest = 0;  // so far: errors grow with the steps
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::sqrt(6) * std::abs(found[i] / expected[i] - 1));
      effect[i] = std::max(effect[i], largest);
    }
  }
  return effect;
}

TEST(MapTraining, FollowsPyTorch) {
  std::ifstream file("tests/golden/layers.json");
  const auto golden = nlohmann::json::parse(file);
  int trained = 0;
  for (const cases::LayerCase& c : cases::kLayerCases) {
    if (!golden.contains(c.name) || !golden[c.name].contains("losses")) continue;
    ++trained;
    const std::vector<double> expected = golden[c.name]["losses"];
    EXPECT_LT(expected.back(), expected.front()) << c.name << " learns nothing";
    const std::vector<double> effect = effect_of_roundings(c, expected);
    EXPECT_LT(effect.back(), 0.1 * (1 - expected.back() / expected.front())) << "would hide that nothing is learnt";
    for (const DType precision : {DType::kF32, DType::kBf16}) {
      for (const std::int64_t recompute : {0, 1, 3}) {
        const NetworkOptions options{.recompute = recompute, .precision = precision, .kernels = {}};
        const std::vector<double> found = train(c, options, expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(found[i], expected[i], (precision == DType::kF32 ? 1e-4 : 4 * effect[i]) * expected[i])
              << c.name << fmt::format(", {} segments", recompute) << ", step " << i;
        }
      }
    }
  }
  EXPECT_EQ(trained, 5);
}

}  // namespace
}  // namespace petaflow
