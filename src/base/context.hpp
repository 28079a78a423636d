// State that kernel launches need: the execution-space instance, the threads of the host, and the state of the step.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <Kokkos_Core.hpp>

#include "base/random.hpp"
#ifdef PETAFLOW_GUARDED
#include "base/guarded_space.hpp"
#endif

namespace petaflow {

using ExecutionSpace = Kokkos::DefaultExecutionSpace;
#ifdef PETAFLOW_GUARDED
using MemorySpace = GuardedSpace;
#else
using MemorySpace = ExecutionSpace::memory_space;
#endif
/// Where the host's end of a copy to or from MemorySpace lies for which nobody waits: pinned pages beside a GPU.
#ifdef KOKKOS_ENABLE_CUDA
using StagingSpace = Kokkos::CudaHostPinnedSpace;
#else
using StagingSpace = Kokkos::HostSpace;
#endif
/// True where host code may touch what kernels work on.
inline constexpr bool kOnHost = Kokkos::SpaceAccessibility<Kokkos::HostSpace, MemorySpace>::accessible;

/// What all kernels and copies of a process run on, in their order: on a GPU a stream of its own.
#ifdef KOKKOS_ENABLE_CUDA
ExecutionSpace execution_space();
#else
inline ExecutionSpace execution_space() { return {}; }
#endif

/// Everything that changes from step to step.  It lives in the memory of the execution space, so that a step whose
/// kernels read it there can be captured once and replayed.
struct StepState {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // optimizer steps done
  float learning_rate = 0;
  float loss_scale = 1;                  // 1 / real samples of the global batch
  const std::int64_t* sample = nullptr;  // (N) global sample index of each slot, -1: padding
  const float* weight = nullptr;         // (N) loss weight, 0: padding
};

/// The random stream of a layer in this epoch.
KOKKOS_INLINE_FUNCTION RandomStream layer_stream(const StepState& state, RandomPurpose purpose, int layer) {
  return random_stream(state.seed, purpose, static_cast<std::uint64_t>(state.epoch), static_cast<std::uint64_t>(layer));
}

/// Kokkos must be initialised before one is made.
struct Context {
  ExecutionSpace space = execution_space();
  /// Threads of the host, for kernels that divide their own work.  Networks need all that Kokkos runs.
  int threads = Kokkos::DefaultHostExecutionSpace().concurrency();
  bool training = true;             // dropout on, what backward needs is kept
  const StepState* step = nullptr;  // in MemorySpace
  /// values (host memory) = sum over the ranks that share the global batch, or over a group of them; null: this rank is
  /// alone.  Every rank calls it as often and with as many values.
  const std::function<void(std::span<double>)>* sum_over_ranks = nullptr;
  /// Lets messages move on: called by the thread that launches kernels, between stages and (in_loop) between tiles of
  /// convolutions, where a message would else wait for tens of milliseconds, but no kernel can be launched; null: there
  /// are none.
  const std::function<void(bool in_loop)>* poll = nullptr;
};

}  // namespace petaflow
