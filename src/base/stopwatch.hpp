// Time of what an execution space was given, for sums over a run.
#pragma once

#include <Kokkos_Core.hpp>

#include "base/context.hpp"

namespace petaflow {

/// Adds the seconds of its life, until the space is idle, to a sum.
class Stopwatch {
 public:
  Stopwatch(const Context& context, double& sum) : context_(context), sum_(sum) {}
  ~Stopwatch() {
    if constexpr (!kOnHost) context_.space.fence();
    sum_ += timer_.seconds();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const Context& context_;
  double& sum_;
  Kokkos::Timer timer_;
};

}  // namespace petaflow
