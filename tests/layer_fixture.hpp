// A network of a probe and a case's layers, with the waves of make_layer_golden.py in it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "device_memory.hpp"
#include "kernels/launch.hpp"
#include "layer_cases.hpp"
#include "nn/network.hpp"
#include "nn/parallel.hpp"

namespace petaflow::testing_support {

// y = x + shift with one shift per element of a sample: its gradient shows the dx of what follows, summed over the
// batch.
class ProbeStage final : public Stage {
 public:
  explicit ProbeStage(std::int64_t size) : size_(size) {}
  void forward(const Context& context) override {
    const auto *x = buffers.x[0].as<float>(), *shift = buffers.weights;
    auto* y = buffers.y[0].as<float>();
    const std::int64_t size = size_;
    launch(
        context, "test::probe", buffers.x[0].shape.elements(),
        KOKKOS_LAMBDA(std::int64_t i) { y[i] = x[i] + shift[i % size]; });
  }
  void backward(const Context& context, float* gradient) override {
    const auto* dy = buffers.dy[0].as<float>();
    const std::int64_t size = size_, batch = buffers.dy[0].shape.n;
    launch(
        context, "test::probe_gradient", size, KOKKOS_LAMBDA(std::int64_t i) {
          float sum = 0;
          for (std::int64_t n = 0; n < batch; ++n) sum += dy[n * size + i];
          gradient[i] = sum;
        });
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
          int threads = HostSpace().concurrency(), ConvTuning* tuning = nullptr) {
    context.threads = threads;
    context.training = training;
    Graph graph(c.x);
    graph.add<Probe>("probe", c.x.with_batch(1));
    c.add(graph);
    options.batch = c.x.n;
    options.fills_dead = true;
    network = std::make_unique<Network>(graph, options, context, tuning);
    samples.resize(static_cast<std::size_t>(c.x.n));
    std::iota(samples.begin(), samples.end(), 100);
    state.seed = 5;
    context.step = device_state_.data();
    std::vector<float> weights(static_cast<std::size_t>(network->parameter_elements()));
    int index = 0;
    for (const Parameter& p : network->parameters()) {
      const bool probe = p.name == "probe/shift";
      // Dense weights are (outputs, D, H, W, C) here and (outputs, C, D, H, W) there; no golden case tells them apart.
      const bool running = !p.spec.trained();
      for (std::int64_t i = 0; i < p.spec.elements(); ++i) {
        const float start = running ? static_cast<float>(p.spec.init_mean) : wave(i, 1.7 + index, 0.3);
        weights[static_cast<std::size_t>(p.offset + i)] = probe ? 0.0F : start;
      }
      if (!probe && !running) ++index;
    }
    set_weights(weights);
    fill(network->input(), scattered);
    fill(network->output_gradient(), gradient_wave);
  }

  static void fill(const Tensor& t, float (*value)(std::int64_t)) {
    const std::int64_t size = t.shape.sample_size();
    std::vector<float> values(static_cast<std::size_t>(t.shape.elements()));
    for (std::int64_t n = 0; n < t.shape.n; ++n) {
      for (std::int64_t i = 0; i < size; ++i)
        values[static_cast<std::size_t>(n * size + memory_index(t.shape, i))] = value(n * size + i);
    }
    to_device(values, t);
  }

  std::vector<float> weights() const { return to_host<float>(network->weights(), network->parameter_elements()); }
  void set_weights(const std::vector<float>& weights) {
    to_device(weights, network->weights());
    network->refresh(context);
  }
  std::vector<float> forward() {
    device_samples_ = DeviceArray<std::int64_t>(samples);
    state.sample = device_samples_.data();
    device_state_.set(state);
    network->forward(context);
    return to_host(network->output());
  }
  /// Bytes that stages keep for backward: signs, places of maxima, masks of dropout; statistics of batch norm.
  using Saved = std::map<std::string, std::vector<std::byte>>;
  /// After forward().
  Saved saved() const {
    Saved saved;
    for (const auto& [name, memory, size] : saved_blocks()) saved[name] = to_host<std::byte>(memory, size);
    return saved;
  }
  /// @param saved  instead of what the forward pass keeps
  std::vector<float> gradient(const Saved* saved = nullptr) {
    forward();
    if (saved != nullptr) {
      for (const auto& [name, memory, size] : saved_blocks()) {
        const std::vector<std::byte>& bytes = saved->at(name);
        PETAFLOW_REQUIRE(std::ssize(bytes) == size, "{}: {} bytes for {}", name, bytes.size(), size);
        to_device(bytes, memory);
      }
    }
    const std::vector<float> dy = to_host(network->output_gradient());
    const DeviceArray<float> result(
        std::vector<float>(static_cast<std::size_t>(network->parameter_elements()), std::nanf("")));
    network->backward(context, result.data());
    to_device(dy, network->output_gradient());  // what others read too has been added to
    return result.get();
  }
  // sum of y times the output gradient, the function whose gradient backward computes
  double objective() {
    const std::vector<float> y = forward(), dy = to_host(network->output_gradient());
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * static_cast<double>(dy[i]);
    return sum;
  }

  Context context;
  StepState state;                    // of the next pass, but for the samples
  std::vector<std::int64_t> samples;  // likewise
  std::unique_ptr<Network> network;

 private:
  struct SavedBlock {
    std::string name;
    std::byte* memory;
    std::int64_t size;
  };
  std::vector<SavedBlock> saved_blocks() const {
    const std::vector<BlockReport> blocks = network->blocks();
    const auto weights = std::ranges::find(blocks, "weights", &BlockReport::name);
    std::byte* const arena = reinterpret_cast<std::byte*>(network->weights()) - weights->offset;
    std::vector<SavedBlock> saved;
    for (const BlockReport& block : blocks) {
      if (block.name.ends_with(" saved"))
        saved.push_back({block.name, arena + block.offset, static_cast<std::int64_t>(block.size_bytes)});
    }
    return saved;
  }

  DeviceArray<std::int64_t> device_samples_{0};
  DeviceState device_state_;
};

// From memory order to (N, C, D, H, W).
inline std::vector<float> planar(const Shape& s, std::span<const float> values) {
  std::vector<float> result;
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t i = 0; i < s.sample_size(); ++i)
      result.push_back(values[static_cast<std::size_t>(n * s.sample_size() + memory_index(s, i))]);
  }
  return result;
}

}  // namespace petaflow::testing_support
