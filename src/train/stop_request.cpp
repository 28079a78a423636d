#include "train/stop_request.hpp"

#include <chrono>
#include <csignal>

namespace petaflow {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t caught_signal = 0;
const Clock::time_point kProgramStart = Clock::now();
double wall_time_s = 0;

extern "C" void note_signal(int signal) {
  caught_signal = signal;
  std::signal(signal, SIG_DFL);
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
