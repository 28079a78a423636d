// Where the time of training steps goes.
#pragma once

#include <string>

#include "base/context.hpp"
#include "base/region.hpp"
#include "base/stopwatch.hpp"
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
class TimedRegion {
 public:
  TimedRegion(const std::string& name, const Context& context, double& sum) : region_(name), watch_(context, sum) {}

 private:
  Region region_;
  Stopwatch watch_;
};

}  // namespace petaflow
