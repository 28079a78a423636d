// Threads beside the computation, and those that only use what it leaves.
#pragma once

namespace petaflow {

/// Lets the calling thread run on every core that some thread of the process may use: it would inherit the one core to
/// which an OpenMP runtime has bound the thread that starts it.
void let_thread_use_all_cores();

/// Gives the calling thread idle priority (SCHED_IDLE, or else nice 19), for ever: only a privileged one may leave it.
void make_thread_idle();

}  // namespace petaflow
