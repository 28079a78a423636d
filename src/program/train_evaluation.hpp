// The evaluation in full at the end of a training.
#pragma once

#include "program/configuration.hpp"
#include "program/task.hpp"
#include "report/reporter.hpp"
#include "train/stop_request.hpp"

namespace petaflow {

/// Evaluates the trained network on data.test, else on `validation`; nothing where there is neither.
/// @return  the request that ended the evaluation before it was through; nothing is written then
StopRequest evaluate_at_end(const Configuration& config, Task& task, const Reporter& reporter, Communicator& comm,
                            const Context& context, Network& network, const Objective& objective,
                            const Dataset* validation);

}  // namespace petaflow
