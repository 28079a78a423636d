// Checks that let train refuse or warn before it begins.
#pragma once

#include <string>

#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "nn/network.hpp"
#include "program/command_line.hpp"
#include "program/configuration.hpp"
#include "program/task.hpp"
#include "run/folder.hpp"
#include "train/schedule.hpp"

namespace petaflow {

/// On all ranks: where data.train is not there and the input file says where it comes from, the user error says so.
void check_source(const DataOptions& data, Communicator& comm);

/// On all ranks.  The test set is read at the end: it is looked into now, so that its faults are not found then.
void check_test_set(const std::vector<std::string>& test, const Task& task, Communicator& comm);

/// A batch that the set cannot fill would be trained on as a smaller one: a user error.
void check_batch(const TrainOptions& options, const Dataset& train);

/// The metric that training stops by and keeps the best of.
std::string stop_metric(const StopOptions& options, const Task& task);

/// Throws a user error where the metric to stop by is none of the application's, or, on rank 0, has no value on the
/// validation set: that does not depend on the predictions.
void check_metric(const StopOptions& options, Task& task, const Communicator& comm, const Dataset* validation,
                  const Network& network);

/// What is not as it was when a checkpoint was written, a phrase each.
struct Changes {
  std::vector<std::string> learnt;  // bears on what is learnt: data files and options
  std::vector<std::string> others;  // other options
};
Changes find_changes(Configuration& config, const ResumePoint& point);
/// Throws a user error where what is learnt changes without resume.accept_changes; otherwise the run goes on with the
/// new values and says so.
void check_changes(const Changes& changes, const ResumeOptions& options, const std::string& path);

/// Warns of a learning rate of 0, and of one that the warm-up does not reach.
void warn_of_rate(const CommonOptions& options, const Schedule& schedule, std::int64_t steps);

/// Warns where there is no gradient-noise scale, because a step is one micro-batch.
/// @param ranks  that share the samples of a step
void warn_of_noise_scale(const CommonOptions& options, int ranks);

/// Metrics of samples that are learnt from say little.
void warn_of_common_files(const DataOptions& data);

}  // namespace petaflow
