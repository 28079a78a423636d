// A trace of a few training steps for chrome://tracing and Perfetto: the regions, kernels and deep copies that Kokkos
// reports, in Chrome's Trace Event Format (complete events), one process per rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace petaflow {

/// While it records it is Kokkos' tool; there may be one at a time.  Before and after the steps it costs nothing.
class StepTrace {
 public:
  /// Times count from here.
  /// @param steps  to record, after kSkipped others; 0: none
  /// @param path   file to write when they are done; empty: none
  StepTrace(std::int64_t steps, std::string path);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// Around each step, from the thread that computes.  After the last step to record the file is written.
  void begin_step(std::int64_t step);
  void end_step();
  /// Writes what there is where the run ends before the last of them.
  void finish();
  /// The trace of all ranks instead of this one's, in the file of rank 0: of the others the steps and regions, of at
  /// most kRanks of them.  After finish(); times are comparable where all ranks made it at the same time.  Collective.
  void write_all(Communicator& comm) const;

  /// Where another tool is loaded it keeps Kokkos' calls, and there is no trace.
  static bool tool_is_loaded();

  static constexpr std::int64_t kSkipped = 2;  // first steps: page faults, plans

  static constexpr int kRanks = 64;  // what a screen shows

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
  std::chrono::steady_clock::time_point zero_ = std::chrono::steady_clock::now();
  std::vector<Event> events_;  // when it has stopped
  bool records_ = false;
};

}  // namespace petaflow
