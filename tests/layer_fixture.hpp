// A network of a probe and a case's layers, with the waves of make_layer_golden.py in it.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "layer_cases.hpp"
#include "nn/network.hpp"
#include "nn/parallel.hpp"

namespace petaflow::testing_support {

// y = x + shift with one shift per element of a sample: its gradient shows the dx of what follows, summed over the
// batch.
class ProbeStage final : public Stage {
 public:
  explicit ProbeStage(std::int64_t size) : size_(size) {}
  void forward(const Context&) override {
    for (std::int64_t i = 0; i < buffers.x[0].shape.elements(); ++i) {
      buffers.y[0].as<float>()[i] = buffers.x[0].as<float>()[i] + buffers.weights[i % size_];
    }
  }
  void backward(const Context&, float* gradient) override {
    std::fill_n(gradient, size_, 0.0F);
    for (std::int64_t i = 0; i < buffers.dy[0].shape.elements(); ++i)
      gradient[i % size_] += buffers.dy[0].as<float>()[i];
  }

 private:
  std::int64_t size_;
};

class Probe final : public Layer {
 public:
  explicit Probe(const Shape& x) : size_(x.sample_size()) {}
  Shape output(const Shape& x) const override { return x; }
  std::vector<ParamSpec> parameters(const Shape&) const override { return {{"shift", {size_}}}; }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<ProbeStage>(size_)}); }

 private:
  std::int64_t size_;
};

inline float wave(std::int64_t i, double frequency, double amplitude) {
  return static_cast<float>(amplitude * std::sin(frequency * static_cast<double>(i) + 0.5));
}

// In [-2, 2), neighbours far apart and hardly any two values close: maxima and signs are clear.
inline float scattered(std::int64_t i) {
  const double value = static_cast<double>(i) * 0.6180339887498949;
  return static_cast<float>(4 * (value - std::floor(value)) - 2);
}

inline float gradient_wave(std::int64_t i) { return wave(i, 0.917, 1.0); }

// Element i of a sample in the order (C, D, H, W), as an index in memory order (D, H, W, C).
inline std::int64_t memory_index(const Shape& s, std::int64_t i) {
  const std::int64_t channel = i / s.pixels(), pixel = i % s.pixels();
  return pixel * s.c + channel;
}

// A network of the probe and the case's layers, with the waves of make_layer_golden.py in it.
class Fixture {
 public:
  Fixture(const cases::LayerCase& c, NetworkOptions options, bool training = true,
          int threads = HostSpace().concurrency()) {
    context.threads = threads;
    context.training = training;
    Graph graph(c.x);
    graph.add<Probe>("probe", c.x.with_batch(1));
    c.add(graph);
    options.batch = c.x.n;
    network = std::make_unique<Network>(graph, options, context);
    samples.resize(static_cast<std::size_t>(c.x.n));
    std::iota(samples.begin(), samples.end(), 100);
    state.sample = samples.data();
    state.seed = 5;
    context.step = &state;
    int index = 0;
    for (const Parameter& p : network->parameters()) {
      const bool probe = p.name == "probe/shift";
      // Dense weights are (outputs, D, H, W, C) here and (outputs, C, D, H, W) there; no golden case tells them apart.
      const bool running = !p.spec.trained();
      for (std::int64_t i = 0; i < p.spec.elements(); ++i) {
        const float start = running ? static_cast<float>(p.spec.init_mean) : wave(i, 1.7 + index, 0.3);
        network->weights()[p.offset + i] = probe ? 0.0F : start;
      }
      if (!probe && !running) ++index;
    }
    network->refresh(context);
    fill(network->input(), scattered);
    fill(network->output_gradient(), gradient_wave);
  }

  static void fill(const Tensor& t, float (*value)(std::int64_t)) {
    const std::int64_t size = t.shape.sample_size();
    for (std::int64_t n = 0; n < t.shape.n; ++n) {
      for (std::int64_t i = 0; i < size; ++i) t.as<float>()[n * size + memory_index(t.shape, i)] = value(n * size + i);
    }
  }

  std::vector<float> forward() {
    network->forward(context);
    const Tensor y = network->output();
    return {y.as<float>(), y.as<float>() + y.shape.elements()};
  }
  std::vector<float> gradient() {
    forward();
    std::vector<float> result(static_cast<std::size_t>(network->parameter_elements()), std::nanf(""));
    network->backward(context, result.data());
    return result;
  }
  // sum of y times the output gradient, the function whose gradient backward computes
  double objective() {
    const std::vector<float> y = forward();
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i)
      sum += static_cast<double>(y[i]) * static_cast<double>(network->output_gradient().as<float>()[i]);
    return sum;
  }

  Context context;
  StepState state;
  std::vector<std::int64_t> samples;
  std::unique_ptr<Network> network;
};

// From memory order to (N, C, D, H, W).
inline std::vector<float> planar(const Shape& s, const float* values) {
  std::vector<float> result;
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t i = 0; i < s.sample_size(); ++i)
      result.push_back(values[n * s.sample_size() + memory_index(s, i)]);
  }
  return result;
}

}  // namespace petaflow::testing_support
