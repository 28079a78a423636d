// SIGINT and SIGTERM end a run in order: the step is finished, the checkpoint written, exit code 3.
#pragma once

namespace petaflow {

/// From now on the first SIGINT or SIGTERM is noted; the second one ends the process.
void watch_stop_signals();
/// The signal that came, or 0.
int stop_signal();

}  // namespace petaflow
