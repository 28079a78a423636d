// Work that is the same in every step, given to a GPU as a whole.
#pragma once

#include <functional>
#include <memory>

#include "base/context.hpp"

namespace petaflow {

/// Elsewhere than on a GPU it calls what it is given, no more.
class Replay {
 public:
#ifdef KOKKOS_ENABLE_CUDA
  Replay();
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  /// Does what `work` launches and copies on the context's space: calls it the first time, when kernels and libraries
  /// ask for memory, and a second time, when all is recorded as a CUDA graph; from then on the graph runs without it.
  /// So whatever differs from step to step must lie in the device's memory, and work must not wait for the space.
  /// While a Kokkos tool looks on, work is called every time.
  void run(const Context& context, const std::function<void()>& work);

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
  bool called_ = false;
#else
  void run(const Context& /*context*/, const std::function<void()>& work) { work(); }
#endif
};

}  // namespace petaflow
