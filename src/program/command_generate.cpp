// generate INPUT: a small valid data set.
#include "program/commands.hpp"
#include "train/stop_request.hpp"

namespace petaflow {

int command_generate(const CommandLine& line, Configuration& config, const Task& task, Communicator& comm) {
  config.load_input(comm, line);
  comm.watch_hangs({});  // ranks wait for each other, however long it takes
  watch_stop_signals();
  task.generate(config.options.data, comm, line.overwrite);
  return kDone;
}

}  // namespace petaflow
