// generate INPUT: a small valid data set.
#include "program/commands.hpp"
#include "train/stop_request.hpp"

namespace petaflow {

int command_generate(Job& job) {
  job.load_input();
  job.comm->watch_hangs({});  // ranks wait for each other, however long it takes
  watch_stop_signals();
  job.app.generate(job.options, *job.comm, job.line.overwrite);
  return kDone;
}

}  // namespace petaflow
