// generate INPUT: a small valid data set, written by rank 0.
#include "train/agree.hpp"
#include "train/commands.hpp"

namespace petaflow {

int command_generate(Job& job) {
  job.load_input();
  agree(*job.comm, [&] {
    if (job.is_root()) job.app.generate(job.options, job.line.overwrite);
  });
  return kDone;
}

}  // namespace petaflow
