// Time of what an execution space was given, for sums over a run.
#pragma once

#include <chrono>
#include <cstddef>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"

namespace petaflow {

/// A moment between what a space was given before and what it is given next; inside a Replay or outside of it.
#ifdef KOKKOS_ENABLE_CUDA
using Moment = std::size_t;  // the number of an event in its stream, for which nobody waits
Moment now(const Context& context);
void add_time(Moment from, Moment to, double& sum);
void collect_times();
void forget_times();
#else
using Moment = std::chrono::steady_clock::time_point;
inline Moment now(const Context& /*context*/) { return std::chrono::steady_clock::now(); }
/// sum += seconds from one moment to the other.  On a GPU at collect_times(), until when the sum must live.
inline void add_time(Moment from, Moment to, double& sum) { sum += std::chrono::duration<double>(to - from).count(); }
/// Brings all sums up to date; the space must be idle, and no Stopwatch may run.
inline void collect_times() {}
/// Gives up what still waits for collect_times(), before the sums that it is for end.
inline void forget_times() {}
#endif

/// Adds the seconds that a space takes for what it is given in the object's life to a sum.
class Stopwatch {
 public:
  Stopwatch(const Context& context, double& sum) : context_(context), sum_(sum), begin_(now(context)) {}
  ~Stopwatch() { add_time(begin_, now(context_), sum_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const Context& context_;
  double& sum_;
  Moment begin_;
};

}  // namespace petaflow
