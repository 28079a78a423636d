#include "train/peak.hpp"

#include <algorithm>
#include <vector>

#include <Kokkos_Core.hpp>

namespace petaflow {
namespace {

// 16 floats: one register with AVX-512, two with AVX2.  GCC by itself prefers 32 bytes where it may use 64.
using Vector = float __attribute__((vector_size(64)));
constexpr int kLanes = 16, kChains = 12;  // independent chains hide the latency of 4-5 cycles on two units

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
  float result = 0;
  for (const Vector& chain : sum) {
    for (int lane = 0; lane < kLanes; ++lane) result += chain[lane];
  }
  return result;
}

}  // namespace

double measure_peak_gflops(const Context& context) {
  const int threads = std::max(1, context.threads);
  constexpr std::int64_t kRounds = 500'000;  // about 2 ms
  constexpr int kRuns = 20;
  // Each thread's shortest run counts: on a machine that is shared, threads do not wait for the slowest one.
  std::vector<double> best_s(static_cast<std::size_t>(threads), 1e30);
  std::vector<float> results(static_cast<std::size_t>(threads));
  double* const best = best_s.data();
  float* const out = results.data();
  for (int run = 0; run < kRuns; ++run) {
    using Policy = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::Schedule<Kokkos::Static>>;
    Kokkos::parallel_for("petaflow::peak", Policy(0, threads), [=](int thread) {
      const Kokkos::Timer timer;
      out[thread] = multiply_add(kRounds, static_cast<float>(thread + 1));
      best[thread] = std::min(best[thread], timer.seconds());
    });
    Kokkos::DefaultHostExecutionSpace().fence();
  }
  double gflops = 0;
  for (const double seconds : best_s) gflops += 2e-9 * static_cast<double>(kRounds) * kChains * kLanes / seconds;
  return gflops;
}

}  // namespace petaflow
