// An execution space beside that of a context: what one is given runs while the other works.
#pragma once

#include <optional>

#include "base/context.hpp"

namespace petaflow {

/// On a GPU a stream of its own.  On a host a space has done what it was given, so that there is nothing to order.
class SideSpace {
 public:
#ifdef KOKKOS_ENABLE_CUDA
  SideSpace();
  ~SideSpace();
  SideSpace(const SideSpace&) = delete;
  SideSpace& operator=(const SideSpace&) = delete;
  const ExecutionSpace& space() const { return *space_; }
  /// What this is given from now on waits for all that the context's space was given before.
  void wait_for(const Context& context);
  /// What the context's space is given from now on waits for all that this was given before.
  void hold_up(const Context& context);

 private:
  cudaStream_t stream_ = nullptr;
  std::optional<ExecutionSpace> space_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
#else
  const ExecutionSpace& space() const { return space_; }
  void wait_for(const Context& /*context*/) {}
  void hold_up(const Context& /*context*/) {}

 private:
  ExecutionSpace space_;
#endif
};

}  // namespace petaflow
