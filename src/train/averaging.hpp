// Means over groups of ranks that train by themselves in between.
// Source: Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019, algorithm 1.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "comm/counted_wait.hpp"
#include "comm/reduction.hpp"

namespace petaflow {

/// values = mean over ranks, added in the order of tree_plan() and multiplied by 1 / ranks: the same bits everywhere.
/// @param values  (count) in MemorySpace
/// @param waits   counts for whom this rank waited
void average(Communicator& comm, float* values, std::int64_t count, const CountWait& waits);

/// A sum over ranks, in the order of tree_plan(), that goes on while they train, and is mixed with what they have then.
/// Source: Coquelin et al., "Accelerating neural network training with distributed asynchronous and selective
/// optimization (DASO)", Journal of Big Data 9, 2022, equation 1.
class LateAverage {
 public:
  /// @param flags  how many values are summed over ranks along with the weights: losses, failures, stop requests
  LateAverage(Communicator& comm, std::int64_t count, std::int64_t flags);

  /// @param values  (count) in MemorySpace
  /// @param flags   of this rank
  void start(const float* values, std::span<const double> flags);
  /// Lets it move on.
  void progress();
  /// Waits for it: values = (2 steps values + sum) / (2 steps + ranks).  Gives the sum of the flags.
  /// @param steps  that values changed by since start()
  /// @param waits  counts for whom this rank waited
  std::span<const double> finish(const Context& context, float* values, std::int64_t steps, const CountWait& waits);
  const Communicator& across() const { return comm_; }

 private:
  using Array = Kokkos::View<float*, MemorySpace>;

  Communicator& comm_;
  Array sum_;
  Array::HostMirror host_;  // the array itself where MemorySpace is the host's
  std::vector<double> flags_;
  Reduction<float> reduction_;
  std::unique_ptr<Reduction<double>> flag_sum_;
  bool under_way_ = false;
};

}  // namespace petaflow
