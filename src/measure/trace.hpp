// A trace of a few training steps for chrome://tracing and Perfetto: the regions, kernels and deep copies that Kokkos
// reports on rank 0, in Chrome's Trace Event Format (complete events).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace petaflow {

/// While it records it is Kokkos' tool; there may be one at a time.  Before and after the steps it costs nothing.
class StepTrace {
 public:
  /// @param steps  to record, after kSkipped others; 0: none
  /// @param path   file to write when they are done; empty: nothing is recorded
  StepTrace(std::int64_t steps, std::string path);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// Around each step, from the thread that computes.  After the last step to record the file is written.
  void begin_step(std::int64_t step);
  void end_step();
  /// Writes what there is where the run ends before the last of them.
  void finish();

  /// Where another tool is loaded it keeps Kokkos' calls, and there is no trace.
  static bool tool_is_loaded();

  static constexpr std::int64_t kSkipped = 2;  // first steps: page faults, plans

  struct Event {
    std::string name;
    const char* category;  // "step", "region", "kernel", "copy"
    double begin_us = 0, duration_us = -1;
  };

 private:
  void start();
  void stop();

  std::int64_t left_, seen_ = 0;
  std::string path_;
  bool records_ = false;
};

}  // namespace petaflow
