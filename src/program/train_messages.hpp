// What train tells the user: what is about to run, what --check found, how it went.
#pragma once

#include <cstddef>
#include <string>

#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "nn/graph.hpp"
#include "program/command_line.hpp"
#include "program/configuration.hpp"
#include "train/trainer.hpp"

namespace petaflow {

/// @param validation  may be null
void say_what_runs(const CommonOptions& options, const Communicator& comm, int threads, const Graph& graph,
                   Dataset& train, Dataset* validation, TrainStep& step);

/// With --check: memory of a rank and time of the training, for which one step is taken.  Collective.
/// @param held_bytes  of data that the rank holds in memory
void say_estimate(const CommonOptions& options, Trainer& trainer, TrainStep& step, Inference& inference,
                  std::size_t held_bytes);

/// Warns of faults of the folder that --check lets pass, because it may be run while the folder is in use.
void warn_of_run_folder(const CommandLine& line, const std::string& folder);

/// After the training.
void say_rates(const FitResult& result);

}  // namespace petaflow
