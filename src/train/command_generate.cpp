// generate INPUT: a small valid data set, written by rank 0.
#include "train/agree.hpp"
#include "train/commands.hpp"
#include "train/stop_request.hpp"

namespace petaflow {

int command_generate(Job& job) {
  job.load_input();
  job.comm->watch_hangs({});  // the other ranks wait for rank 0, however long it takes
  watch_stop_signals();
  agree(*job.comm, [&] {
    if (job.is_root()) job.app.generate(job.options, job.line.overwrite);
  });
  return kDone;
}

}  // namespace petaflow
