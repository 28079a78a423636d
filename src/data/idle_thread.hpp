// Threads that only use what the computation leaves.
#pragma once

namespace petaflow {

/// Gives the calling thread idle priority (SCHED_IDLE, or else nice 19), and lets it run on every core that some thread
/// of the process may use: it would inherit the one core to which an OpenMP runtime has bound the thread that starts
/// it.
void make_thread_idle();

}  // namespace petaflow
