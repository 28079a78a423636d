// Requests to end a run in order: the step is finished, a checkpoint written, exit code 3.
#pragma once

namespace petaflow {

enum class StopRequest { kNone, kSignal, kWallTime };

/// From now on the first SIGINT, SIGTERM or SIGUSR1 (what batch systems send before the time is up) is a request;
/// another one, two seconds later or more, ends the process.
void watch_stop_signals();

/// From now on it is a request that the process has run for so many seconds; 0: never.
void limit_wall_time(double seconds);

/// The stop that has been requested of this rank so far.
StopRequest stop_request();

}  // namespace petaflow
