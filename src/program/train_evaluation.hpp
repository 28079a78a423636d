// The evaluations at the end of a training: of the validation set, for what decisions need, and of the test set in
// full.
#pragma once

#include "program/configuration.hpp"
#include "program/task.hpp"
#include "report/reporter.hpp"
#include "train/stop_request.hpp"

namespace petaflow {

/// Lets the task find on `validation` (may be null) what decisions about other data need (Task::calibrator), takes it
/// into the options, and keeps these with the newest checkpoint and in the run folder.
/// @return  the request that ended it before it was through; nothing has changed then
StopRequest calibrate(Configuration& config, Task& task, Communicator& comm, const Context& context, Network& network,
                      const Objective& objective, const Dataset* validation);

/// Evaluates the trained network on data.test, else on `validation`; nothing where there is neither.
/// @return  the request that ended the evaluation before it was through; nothing is written then
StopRequest evaluate_at_end(const Configuration& config, Task& task, const Reporter& reporter, Communicator& comm,
                            const Context& context, Network& network, const Objective& objective,
                            const Dataset* validation);

}  // namespace petaflow
