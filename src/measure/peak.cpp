#include "measure/peak.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <Kokkos_Core.hpp>

#include "kernels/amx.hpp"

#if defined(__AVX512BF16__) && !defined(__CUDACC__)
#define PETAFLOW_BF16_DOT_PRODUCTS
#include <immintrin.h>
#endif

namespace petaflow {
namespace {

using HostSpace = Kokkos::DefaultHostExecutionSpace;

/// All indices of an array, each thread the same ones in every loop.
auto policy_over(const Kokkos::View<float*, Kokkos::HostSpace>& array) {
  return Kokkos::RangePolicy<HostSpace, Kokkos::Schedule<Kokkos::Static>, Kokkos::IndexType<std::int64_t>>(
      0, static_cast<std::int64_t>(array.size()));
}

#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;  // one register: AVX2 has sixteen
#endif
constexpr int kChains = 12;  // independent ones hide the latency of 4-5 cycles on two units
// GCC by itself prefers 32 bytes where it may use 64.
using Vector = float __attribute__((vector_size(4 * kLanes)));

template <class V>
float total(const V (&chains)[kChains]) {
  float result = 0;
  for (const V& chain : chains) {
    for (int lane = 0; lane < kLanes; ++lane) result += chain[lane];
  }
  return result;
}

/// `rounds` times kChains multiply-adds; returns something that depends on all of them.
__attribute__((noinline)) float multiply_add(std::int64_t rounds, float seed) {
  Vector sum[kChains], factor, term;
  for (int lane = 0; lane < kLanes; ++lane) {
    factor[lane] = 1.0F - 1e-6F * seed;
    term[lane] = 1e-6F * seed;
  }
  for (int chain = 0; chain < kChains; ++chain) sum[chain] = term * static_cast<float>(chain);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (Vector& chain : sum) chain = chain * factor + term;
  }
  return total(sum);
}

#ifdef PETAFLOW_BF16_DOT_PRODUCTS
/// `rounds` times kChains dot products of 16 pairs.
__attribute__((noinline)) float dot_products(std::int64_t rounds, float seed) {
  const __m512 value = _mm512_set1_ps(1e-3F * seed);
  const __m512bh factor = _mm512_cvtne2ps_pbh(value, value);
  __m512 sum[kChains];
  for (int chain = 0; chain < kChains; ++chain) sum[chain] = _mm512_set1_ps(static_cast<float>(chain));
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (__m512& chain : sum) chain = _mm512_dpbf16_ps(chain, factor, factor);
  }
  return total(sum);
}
#endif

#ifdef PETAFLOW_AMX
constexpr auto kTileValues = [] {
  std::array<std::uint16_t, 512> values{};
  values.fill(0x3A83);  // 0.001 in bf16
  return values;
}();
constexpr double kTileFlop = 4 * 2.0 * 16 * 16 * 32;  // of a round

/// `rounds` times four products of tiles, each 16 x 32 by 32 x 16.
__attribute__((noinline)) float tile_products(std::int64_t rounds) {
  AmxTiles tiles;
  tiles.zero<0>();
  tiles.zero<1>();
  tiles.zero<2>();
  tiles.zero<3>();
  tiles.load<4>(kTileValues.data(), 64);
  tiles.load<5>(kTileValues.data(), 64);
  tiles.load<6>(kTileValues.data(), 64);
  tiles.load<7>(kTileValues.data(), 64);
  for (std::int64_t round = 0; round < rounds; ++round) {
    tiles.multiply_add<0, 4, 6>();
    tiles.multiply_add<1, 4, 7>();
    tiles.multiply_add<2, 5, 6>();
    tiles.multiply_add<3, 5, 7>();
  }
  std::array<float, 256> result;
  tiles.store<3>(result.data(), 64);
  return result[0];
}
#endif

/// GFLOP/s of all threads that call work(seed), which is `flop` each time.
template <class Work>
double best_rate(int threads, double flop, const Work& work) {
  constexpr int kRuns = 20;
  // Each thread's shortest run counts: on a machine that is shared, threads do not wait for the slowest one.
  std::vector<double> best_s(static_cast<std::size_t>(threads), 1e30);
  std::vector<float> results(static_cast<std::size_t>(threads));
  double* const best = best_s.data();
  float* const out = results.data();
  for (int run = 0; run < kRuns; ++run) {
    using Policy = Kokkos::RangePolicy<HostSpace, Kokkos::Schedule<Kokkos::Static>>;
    Kokkos::parallel_for("petaflow::peak", Policy(0, threads), [=](int thread) {
      const Kokkos::Timer timer;
      out[thread] = work(static_cast<float>(thread + 1));
      best[thread] = std::min(best[thread], timer.seconds());
    });
    HostSpace().fence();
  }
  double gflops = 0;
  for (const double seconds : best_s) gflops += 1e-9 * flop / seconds;
  const auto cores = static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return gflops * std::min(1.0, cores / threads);  // threads that share a core have it in turns
}

std::size_t last_level_cache_bytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  return static_cast<std::size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
#else
  return 0;
#endif
}

}  // namespace

double Peaks::of(const std::string& precision) const {
  return precision == "bf16" ? std::max({f32_fma, bf16_dot, bf16_tile}) : f32_fma;
}

std::string Peaks::describe() const {
  std::string text = fmt::format("{:.0f} GFLOP/s by f32 multiply-adds", f32_fma);
  if (bf16_dot > 0) text += fmt::format(", {:.0f} by bf16 dot products", bf16_dot);
  if (bf16_tile > 0) text += fmt::format(", {:.0f} by bf16 tiles", bf16_tile);
  return text;
}

Peaks measure_peaks(const Context& context) {
  const int threads = std::max(1, context.threads);
  constexpr std::int64_t kRounds = 500'000;  // about 2 ms
  constexpr double kFlop = 2.0 * kRounds * kChains * kLanes;
  Peaks peaks;
  peaks.f32_fma = best_rate(threads, kFlop, [](float seed) { return multiply_add(kRounds, seed); });
#ifdef PETAFLOW_BF16_DOT_PRODUCTS
  peaks.bf16_dot = best_rate(threads, 2 * kFlop, [](float seed) { return dot_products(kRounds, seed); });
#endif
#ifdef PETAFLOW_AMX
  constexpr std::int64_t kTileRounds = 100'000;  // 64 cycles each: about 2 ms
  if (may_use_amx()) {
    peaks.bf16_tile = best_rate(threads, kTileFlop * kTileRounds, [](float) { return tile_products(kTileRounds); });
  }
#endif
  return peaks;
}

Triad::Triad(const Context& context) {
  const auto threads = static_cast<std::size_t>(std::max(1, context.threads));
  const std::size_t bytes = std::max(threads * (48UL << 20), 4 * last_level_cache_bytes());
  const std::size_t count = bytes / (3 * sizeof(float));
  const auto make = [&](const char* name) {
    return Array(Kokkos::view_alloc(std::string(name), Kokkos::WithoutInitializing), count);
  };
  a_ = make("petaflow::triad::a"), b_ = make("petaflow::triad::b"), c_ = make("petaflow::triad::c");
  Kokkos::parallel_for("petaflow::triad::touch", policy_over(a_),
                       [a = a_, b = b_, c = c_](std::int64_t i) { a[i] = 0, b[i] = 1, c[i] = 2; });
}

double Triad::measure_gbs() const {
  constexpr int kRuns = 10;
  float* const a = a_.data();
  const float* const b = b_.data();
  const float* const c = c_.data();
  double best_s = 1e30;
  for (int run = 0; run < kRuns; ++run) {
    HostSpace().fence();
    const Kokkos::Timer timer;
    Kokkos::parallel_for("petaflow::triad", policy_over(a_), [=](std::int64_t i) { a[i] = b[i] + 3.0F * c[i]; });
    HostSpace().fence();
    best_s = std::min(best_s, timer.seconds());
  }
  return 1e-9 * static_cast<double>(3 * sizeof(float) * a_.size()) / best_s;
}

}  // namespace petaflow
