// The beginning of MLPerf's event log of a training (mllog = true).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "program/command_line.hpp"
#include "program/configuration.hpp"
#include "program/task.hpp"
#include "run/mllog.hpp"
#include "train/train_step.hpp"
#include "train/trainer.hpp"

namespace petaflow {

/// The log, which starts to count time: on rank 0, where there is to be one.  A user error where there cannot be one.
std::unique_ptr<MlLog> begin_mllog(const CommandLine& line, const CommonOptions& options, const Task& task,
                                   Communicator& comm);

/// Opens the log's file and writes the settings of the training, which end its initialisation, by the names that the
/// rules of CosmoFlow and DeepCAM have for them (hpc_3.0.0 of mlcommons/logging).  Collective.  The global
/// batch is the samples of a step, from which a gradient is made: with update.groups those of one group, and those of
/// the first epoch where they grow.
/// @param log  null on other ranks than 0
void write_mllog_settings(MlLog* log, const std::string& path, const std::string& benchmark,
                          const CommonOptions& options, Communicator& comm, int threads, std::int64_t train_samples,
                          const Trainer& trainer, const TrainStep& step, const Dataset* validation);

}  // namespace petaflow
