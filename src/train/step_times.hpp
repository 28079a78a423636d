// Where the time of training steps goes.
#pragma once

#include <string>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/region.hpp"
#include "comm/communicator.hpp"

namespace petaflow {

/// Seconds of this rank.
struct StepTimes {
  double input = 0, forward = 0, backward = 0, communication = 0, optimizer = 0;
  double total() const { return input + forward + backward + communication + optimizer; }
};

/// The mean over ranks.
StepTimes mean_times(Communicator& comm, StepTimes times);

/// A region that adds the seconds of its life to a sum.
class Stopwatch {
 public:
  Stopwatch(const std::string& region, const Context& context, double& sum)
      : region_(region), context_(context), sum_(sum) {}
  ~Stopwatch() {
    if constexpr (!kOnHost) context_.space.fence();
    sum_ += timer_.seconds();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Region region_;
  const Context& context_;
  double& sum_;
  Kokkos::Timer timer_;
};

}  // namespace petaflow
