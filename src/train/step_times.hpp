// Where the time of training steps goes.
#pragma once

#include <string>
#include <utility>

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

/// Gives every moment of a step to one part: the innermost one that goes on.
class StepClock {
 public:
  using Part = double StepTimes::*;

  /// The part that goes on from now on; null: none.  Returns that before it.
  Part enter(const Context& context, Part part) {
    const Moment at = now(context);
    if (part_ != nullptr) add_time(since_, at, times_.*part_);
    since_ = at;
    return std::exchange(part_, part);
  }
  /// Up to date where collect_times() was called since.
  const StepTimes& times() const { return times_; }
  void reset() { times_ = {}; }

 private:
  StepTimes times_;
  Part part_ = nullptr;
  Moment since_{};
};

/// Gives the time of its life to a part.
class TimedPart {
 public:
  TimedPart(const Context& context, StepClock& clock, StepClock::Part part)
      : context_(context), clock_(clock), before_(clock.enter(context, part)) {}
  ~TimedPart() { clock_.enter(context_, before_); }
  TimedPart(const TimedPart&) = delete;
  TimedPart& operator=(const TimedPart&) = delete;

 private:
  const Context& context_;
  StepClock& clock_;
  StepClock::Part before_;
};

/// A region that gives its time to a part.
class TimedRegion {
 public:
  TimedRegion(const std::string& name, const Context& context, StepClock& clock, StepClock::Part part)
      : region_(name), timed_(context, clock, part) {}

 private:
  Region region_;
  TimedPart timed_;
};

}  // namespace petaflow
