#include "train/stop_signal.hpp"

#include <csignal>

namespace petaflow {
namespace {

volatile std::sig_atomic_t caught_signal = 0;

extern "C" void note_signal(int signal) {
  caught_signal = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void watch_stop_signals() {
  std::signal(SIGINT, note_signal);
  std::signal(SIGTERM, note_signal);
}

int stop_signal() { return caught_signal; }

}  // namespace petaflow
