// Every convolution implementation on the layers of the HEP network, whole tensors, f32: GFLOP/s per pass.
//   build/host/bin/bench_conv --benchmark_filter=conv2
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "kernels/conv.hpp"

namespace petaflow {
namespace {

struct LayerShape {
  const char* name;
  std::int64_t in_channels, size;
};
constexpr LayerShape kLayers[] = {
    {"conv1", 3, 224}, {"conv2", 128, 112}, {"conv3", 128, 56}, {"conv4", 128, 28}, {"conv5", 128, 14}};
constexpr std::int64_t kBatch = 8, kFilters = 128;

ConvDesc describe(const LayerShape& layer, int threads) {
  ConvDesc desc;
  desc.n = kBatch;
  desc.in_channels = layer.in_channels;
  desc.out_channels = kFilters;
  desc.in = desc.out = {1, layer.size, layer.size};
  desc.geometry = {{1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}, 1};
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
