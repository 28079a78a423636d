#include "train/step_times.hpp"

#include <array>
#include <span>

namespace petaflow {

StepTimes mean_times(Communicator& comm, StepTimes times) {
  std::array<double, 5> all = {times.input, times.forward, times.backward, times.communication, times.optimizer};
  comm.all_reduce_sum(std::span<double>(all));
  for (double& value : all) value /= comm.size();
  return {all[0], all[1], all[2], all[3], all[4]};
}

}  // namespace petaflow
