// The program: owns MPI, Kokkos, the command line, and the way from exceptions to exit codes.
#pragma once

#include "program/task.hpp"
#include "report/reporter.hpp"

namespace petaflow {

/// Runs the sub-command that the arguments name and returns the exit code: 0 done, 1 user error (arguments, input file,
/// data), 2 failure (NaN, library, lost rank), 3 stopped by a signal or run.wall_time with a checkpoint written.
int run(int argc, char** argv, Task& task, const Reporter& reporter);

}  // namespace petaflow
