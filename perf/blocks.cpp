// blocks NAME: training steps (forward and backward) of a few layers that no application has yet, on numbers in memory.
// perf/peers/compare.sh sets them beside their PyTorch twins.
//   build/host/bin/blocks norm --precision bf16
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "measure/rates.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/add.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/deconv.hpp"
#include "nn/network.hpp"

namespace petaflow::perf {
namespace {

constexpr std::int64_t kBatch = 2;
const Shape kNormalised{1, 64, 1, 192, 288}, kSpread{1, 256, 1, 96, 144};

/// Four blocks of 3 x 3 convolution, batch norm, the block's input added where `residual`, ReLU; the first has no
/// gradient of its input.
Graph normalised(bool residual) {
  Graph graph(kNormalised);
  for (int block = 1; block <= 4; ++block) {
    ConvOptions conv = ConvOptions::same_2d(kNormalised.c, 3);
    conv.bias = false;
    const GraphValue x = graph.value();
    graph.add<Conv>(fmt::format("conv{}", block), conv);
    graph.add<BatchNorm>(fmt::format("norm{}", block));
    if (residual) graph.join<Add>(fmt::format("add{}", block), {graph.value(), x});
    graph.add<Relu>(fmt::format("relu{}", block));
  }
  return graph;
}

/// A transposed convolution to twice the height and width, behind a batch norm so that it has a gradient of its input.
Graph transposed(std::int64_t taps) {
  Graph graph(kSpread);
  DeconvOptions options{ConvOptions::same_2d(kSpread.c, taps)};
  options.stride = {1, 2, 2};
  options.output_padding = {0, 1, 1};
  graph.add<BatchNorm>("norm").add<Deconv>("deconv", options);
  return graph;
}

struct Block {
  const char *name, *help;
  Graph (*graph)();
};
constexpr Block kBlocks[] = {
    {"norm", "four times 3 x 3 convolution of 64 channels on 192 x 288 pixels, batch norm, ReLU",
     [] { return normalised(false); }},
    {"residual", "the same with the block's input added before the ReLU", [] { return normalised(true); }},
    {"deconv3", "batch norm, transposed convolution with 3 x 3 taps and stride 2 of 256 channels on 96 x 144 pixels",
     [] { return transposed(3); }},
    {"deconv5", "the same with 5 x 5 taps", [] { return transposed(5); }},
};

void fill(const Tensor& tensor) {
  const auto elements = static_cast<std::size_t>(tensor.shape.elements());
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const double wave = static_cast<double>(i) * 0.6180339887498949;
    values[i] = static_cast<float>(2 * (wave - std::floor(wave)) - 1);
  }
  Kokkos::deep_copy(Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>(tensor.as<float>(), elements),
                    Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(values.data(), elements));
}

void measure(const Block& block, DType precision, int steps, bool as_json) {
  Context context;
  const Graph graph = block.graph();
  Network network(graph, {.batch = kBatch, .precision = precision, .kernels = {}}, context);
  network.initialise(context, 1);
  fill(network.input());
  fill(network.output_gradient());
  using Samples = Kokkos::View<std::int64_t*, MemorySpace>;
  const Samples samples("petaflow::blocks::samples", static_cast<std::size_t>(kBatch));  // 0: real ones
  StepState state;
  state.sample = samples.data();
  const Kokkos::View<StepState, MemorySpace> device_state("petaflow::blocks::state");
  Kokkos::deep_copy(device_state, state);
  context.step = device_state.data();
  const Kokkos::View<float*, MemorySpace> gradient("petaflow::blocks::gradient",
                                                   static_cast<std::size_t>(network.parameter_elements()));
  constexpr int kWarm = 2;
  std::vector<double> seconds;
  for (int step = 0; step < steps + kWarm; ++step) {
    if (step == kWarm) network.reset_times();
    context.space.fence();
    const Kokkos::Timer timer;
    network.refresh(context);
    network.forward(context);
    network.backward(context, gradient.data());
    context.space.fence();
    if (step >= kWarm) seconds.push_back(timer.seconds());
  }
  std::ranges::sort(seconds);
  const auto count = static_cast<std::size_t>(steps);
  const double median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
  if (as_json) {
    const nlohmann::json json = {{"samples_per_s", static_cast<double>(kBatch) / median},
                                 {"peak_resident_bytes", peak_resident_bytes()}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{:<24} {:>10} {:>12} {:>12}  {}\n", "stage", "forward ms", "backward ms", "of it weights",
             "forward; backward data; backward weights");
  for (const StageReport& stage : network.report()) {
    const auto ms = [&](double total) { return 1e3 * total / steps; };
    fmt::print("{:<24} {:>10.2f} {:>12.2f} {:>12.2f}  {}; {}; {}\n", stage.name, ms(stage.forward_s),
               ms(stage.backward_s), ms(stage.backward_weights_s), stage.forward, stage.backward_data,
               stage.backward_weights);
  }
  fmt::print("{:.1f} ms per step (fastest {:.1f}), {:.3f} samples/s, {:.0f} MiB resident\n", 1e3 * median,
             1e3 * seconds.front(), static_cast<double>(kBatch) / median,
             static_cast<double>(peak_resident_bytes()) / (1 << 20));
}

int run(int argc, char** argv) {
  std::string name, precision = "f32";
  int steps = 8;
  bool as_json = false;
  CLI::App program("Times training steps of a few layers, on a batch of 2.", "blocks");
  std::vector<std::string> names;
  std::string help;
  for (const Block& block : kBlocks) {
    names.emplace_back(block.name);
    help += fmt::format("{}{}: {}", help.empty() ? "" : "; ", block.name, block.help);
  }
  program.add_option("NAME", name, help)->required()->check(CLI::IsMember(names));
  program.add_option("--precision", precision, "of activations and their gradients")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  program.add_option("--steps", steps, "steps that are timed, after two that are not")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  program.add_flag("--json", as_json, "samples/s of the median step and peak resident bytes, for programs");
  CLI11_PARSE(program, argc, argv);
  std::string quiet = "--kokkos-disable-warnings";  // its advice on OMP_PROC_BIND, on the standard output
  std::vector<char*> arguments = {argv[0], quiet.data(), nullptr};
  int count = 2;
  const Kokkos::ScopeGuard kokkos(count, arguments.data());
  measure(*std::ranges::find(kBlocks, name, &Block::name), precision == "f32" ? DType::kF32 : DType::kBf16, steps,
          as_json);
  return 0;
}

}  // namespace
}  // namespace petaflow::perf

int main(int argc, char** argv) {
  try {
    return petaflow::perf::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "blocks: %s\n", error.what());
    return 2;
  }
}
