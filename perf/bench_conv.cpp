// Every convolution implementation on the larger layers of the networks, whole tensors, f32: GFLOP/s of the direct
// convolution, per pass.
//   build/host/bin/bench_conv --benchmark_filter=hep_conv2
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "kernels/conv.hpp"

namespace petaflow {
namespace {

struct LayerShape {
  const char* name;
  std::int64_t n, in_channels, out_channels;
  Extent in;
  std::int64_t kernel, pad;  // in each direction that the input has
};
constexpr LayerShape kLayers[] = {
    // clang-format off
    {"hep_conv1",    8,   3, 128, {1, 224, 224},   3, 1},
    {"hep_conv2",    8, 128, 128, {1, 112, 112},   3, 1},
    {"hep_conv3",    8, 128, 128, {1, 56, 56},     3, 1},
    {"hep_conv4",    8, 128, 128, {1, 28, 28},     3, 1},
    {"hep_conv5",    8, 128, 128, {1, 14, 14},     3, 1},
    {"sc18_conv1",   2,   1,  16, {128, 128, 128}, 3, 0},
    {"sc18_conv2",   2,  16,  32, {63, 63, 63},    4, 0},
    {"sc18_conv3",   2,  32,  64, {30, 30, 30},    4, 0},
    {"mlperf_conv1", 1,   4,  32, {128, 128, 128}, 3, 1},
    {"mlperf_conv2", 1,  32,  64, {64, 64, 64},    3, 1},
    {"mlperf_conv3", 1,  64, 128, {32, 32, 32},    3, 1},
    {"mlperf_conv4", 1, 128, 256, {16, 16, 16},    3, 1},
    {"mlperf_conv5", 1, 256, 512, {8, 8, 8},       3, 1},
    // clang-format on
};

ConvDesc describe(const LayerShape& layer, int threads) {
  ConvDesc desc;
  desc.n = layer.n;
  desc.in_channels = layer.in_channels;
  desc.out_channels = layer.out_channels;
  desc.in = layer.in;
  const bool deep = layer.in.d > 1;
  ConvGeometry& g = desc.geometry;
  g.kernel = {deep ? layer.kernel : 1, layer.kernel, layer.kernel};
  g.pad_begin = g.pad_end = {deep ? layer.pad : 0, layer.pad, layer.pad};
  desc.out = window_output(desc.in, g);
  desc.x_strides = Strides::of(desc.in, desc.in_channels);
  desc.y_strides = Strides::of(desc.out, desc.out_channels);
  desc.threads = threads;
  return desc;
}

void run(benchmark::State& state, const LayerShape& layer, Pass pass, const ConvImpl& impl) {
  Context context;
  const ConvDesc desc = describe(layer, context.threads);
  if (const std::string reason = impl.why_not(pass, {&desc, 1}); !reason.empty()) {
    state.SkipWithError(reason.c_str());
    return;
  }
  const auto kernel = impl.make(pass, {&desc, 1});
  std::vector<float> weights(static_cast<std::size_t>(desc.weight_elements()), 0.01F);
  kernel->refresh(context, weights.data());
  std::vector<float> x(static_cast<std::size_t>(desc.n * desc.in.volume() * desc.in_channels), 0.5F);
  std::vector<float> y(static_cast<std::size_t>(desc.n * desc.out.volume() * desc.out_channels), 0.25F);
  std::vector<float> sum(static_cast<std::size_t>(kernel->gradient_elements()), 0.0F);
  std::vector<std::byte> scratch(kernel->scratch_bytes() + 64);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
  for ([[maybe_unused]] auto iteration : state) kernel->run(context, 0, {x.data(), y.data(), sum.data(), aligned});
  state.counters["GFLOP/s"] = benchmark::Counter(1e-9 * desc.flop(), benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(kernel->detail());
}

void register_all() {
  for (const LayerShape& layer : kLayers) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights}) {
      for (const ConvImpl& impl : conv_impls(pass)) {
        benchmark::RegisterBenchmark(fmt::format("{}/{}/{}", layer.name, name_of(pass), impl.name).c_str(),
                                     [&layer, pass, impl](benchmark::State& state) { run(state, layer, pass, impl); })
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
  }
}

}  // namespace
}  // namespace petaflow

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  benchmark::Initialize(&argc, argv);
  petaflow::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
