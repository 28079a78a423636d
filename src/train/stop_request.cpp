#include "train/stop_request.hpp"

#include <chrono>
#include <csignal>
#include <ctime>

namespace petaflow {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t caught_signal = 0;
volatile std::time_t caught_at_s = 0;
const Clock::time_point kProgramStart = Clock::now();
double wall_time_s = 0;

// One request often comes twice within a moment: from the batch system and through mpirun, or from timeout(1), which
// signals its child and then the group.  A person who insists takes longer.
constexpr std::time_t kSameRequest_s = 2;

extern "C" void note_signal(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (caught_signal == 0) {
    caught_signal = signal;
    caught_at_s = now.tv_sec;
  } else if (now.tv_sec - caught_at_s >= kSameRequest_s) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

void watch_stop_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, note_signal);
}

void limit_wall_time(double seconds) { wall_time_s = seconds; }

StopRequest stop_request() {
  if (caught_signal != 0) return StopRequest::kSignal;
  const double elapsed_s = std::chrono::duration<double>(Clock::now() - kProgramStart).count();
  return wall_time_s > 0 && elapsed_s >= wall_time_s ? StopRequest::kWallTime : StopRequest::kNone;
}

}  // namespace petaflow
