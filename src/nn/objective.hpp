// The function that a network minimises: a weighted sum of losses, each of one output and one target.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/staged.hpp"
#include "nn/graph.hpp"
#include "nn/loss.hpp"

namespace petaflow {

/// One loss of the sum.
struct LossTerm {
  std::size_t output;  // of the network, each read by one term
  std::string target;  // of the data set; not looked at where the loss reads none
  std::shared_ptr<const Loss> loss;
  double weight = 1;
};

class Objective {
 public:
  /// One for each output of the network, in any order.  Throws a user error where that is not so.
  explicit Objective(std::vector<LossTerm> terms);
  /// The objective of a network with one output.
  Objective(std::string target, std::shared_ptr<const Loss> loss);

  const std::vector<LossTerm>& terms() const { return terms_; }
  /// Targets that the terms read, with names, each once.  Throws a user error where the outputs (their
  /// samples' shapes) are others than the terms are for, or two terms read different things as one target.
  std::vector<TargetSpec> targets(std::span<const Shape> outputs) const;

 private:
  std::vector<LossTerm> terms_;
};

/// Shapes of a network's outputs, with the batch.
std::vector<Shape> output_shapes(const Graph& graph, std::int64_t batch = 1);

/// Throws a user error naming `what` ("data.train") where a set does not offer what is wanted.
void check_targets(std::span<const TargetSpec> wanted, std::span<const TargetSpec> offered, const std::string& what);

/// An objective with the memory that it needs for a micro-batch.
class ObjectiveRun {
 public:
  /// @param outputs  of the network, with the batch.  The objective must outlive the object.
  ObjectiveRun(const Objective& objective, std::span<const Shape> outputs);

  const Objective& objective() const { return objective_; }
  /// Targets that MicroBatchInputs are to bring: Objective::targets().
  const std::vector<TargetSpec>& targets() const { return targets_; }

  /// Runs the losses, which read their targets and the context's step state.
  /// @param targets    where those of targets() lie, (N) each, in MemorySpace
  /// @param outputs    of the network
  /// @param scores     as outputs, f32, written; empty: not wanted
  /// @param gradients  as outputs, written; empty: not wanted
  void run(const Context& context, std::span<const void* const> targets, std::span<const Tensor> outputs,
           std::span<const Tensor> scores, std::span<const Tensor> gradients);
  /// Losses of the last run(), once the context's space is idle: for each slot of the micro-batch weight_n times the
  /// weighted sum of the terms' loss_n, exactly 0 in padded slots; valid until the next call.
  std::span<const double> losses();

 private:
  const Objective& objective_;
  std::vector<TargetSpec> targets_;
  std::vector<std::size_t> target_of_term_;
  Staged<float> losses_;                           // (terms, N)
  Kokkos::View<std::byte*, MemorySpace> scratch_;  // of one term after the other
  std::vector<double> sums_;                       // over terms, (N)
};

}  // namespace petaflow
