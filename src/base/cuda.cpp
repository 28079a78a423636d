// What a GPU needs of CUDA beside Kokkos: a stream of its own.
#include <Kokkos_Core.hpp>

#ifdef KOKKOS_ENABLE_CUDA

#include <mutex>
#include <optional>

#include "base/context.hpp"
#include "base/error.hpp"

namespace petaflow {
namespace {

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) failure("{}: {}", call, cudaGetErrorString(error));
}

}  // namespace

// Kokkos' own instance is the legacy stream, for which all others wait and which no graph can be captured from.
ExecutionSpace execution_space() {
  static std::mutex mutex;
  static auto* const space = new std::optional<ExecutionSpace>;  // ends with Kokkos, not behind it
  const std::lock_guard lock(mutex);
  if (!*space) {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    space->emplace(stream);
    Kokkos::push_finalize_hook([stream] {
      space->reset();
      cudaStreamDestroy(stream);
    });
  }
  return **space;
}

}  // namespace petaflow

#endif
