// Whether an execution space has got as far as to a moment, without waiting for it.
#pragma once

#include <utility>

#include "base/context.hpp"

namespace petaflow {

#ifdef KOKKOS_ENABLE_CUDA
class Arrival {
 public:
  Arrival();
  ~Arrival();
  Arrival(Arrival&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Arrival& operator=(Arrival&&) = delete;
  /// The moment is behind all that the context's space was given so far.
  void expect(const Context& context);
  bool reached() const;

 private:
  cudaEvent_t event_ = nullptr;
};
#else
/// On a host a space has done what it was given.
class Arrival {
 public:
  void expect(const Context& /*context*/) {}
  bool reached() const { return true; }
};
#endif

}  // namespace petaflow
