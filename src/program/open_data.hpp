// Opening data sets on many ranks: one rank looks into the files, and what all need of their contents is read once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "program/task.hpp"

namespace petaflow {

/// On all ranks: opens files or patterns, named `what` in errors ("data.train"), ready to be read.  Rank 0 alone scans
/// them; the others open files only to read samples.  Throws on all ranks alike; user errors where files or samples are
/// not as they must be, or have not the shape that the application's options say.
std::unique_ptr<Dataset> open_data(Communicator& comm, Task& task, const std::vector<std::string>& files,
                                   const std::string& what, DataRole role);

/// The same, but samples may have any shape and need no labels, and are not divided by a training set's maxima.
std::unique_ptr<Dataset> open_as_it_is(Communicator& comm, const Task& task, const std::vector<std::string>& files,
                                       const std::string& what);

/// Throws a user error where the samples of a set are not of the shape that the network takes.
void check_shape(const Dataset& data, const Shape& expected, const std::string& what);

/// On all ranks: completes a set that was just opened (dataset.hpp).  Each rank reads its share of the samples.
void complete(Communicator& comm, Dataset& data);

/// On all ranks: each reads its share of the samples, so that unreadable or invalid ones are found.  Shows how far
/// rank 0 is with the set `what` ("data.train").
void check_all(Communicator& comm, const Dataset& data, const std::string& what);

}  // namespace petaflow
