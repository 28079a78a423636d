// One step of synchronous data-parallel training: every rank works through its share of the global batch, the gradients
// are summed over ranks, and every rank makes the same update.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "data/loader.hpp"
#include "io/checkpoint.hpp"
#include "nn/network.hpp"
#include "nn/objective.hpp"
#include "train/options.hpp"
#include "train/pass_inputs.hpp"
#include "train/stop_request.hpp"
#include "train/sync.hpp"
#include "update/optimizer.hpp"

namespace petaflow {

/// Seconds of this rank.
struct StepTimes {
  double input = 0, forward = 0, backward = 0, communication = 0, optimizer = 0;
  double total() const { return input + forward + backward + communication + optimizer; }
};

/// The mean over ranks.
StepTimes mean_times(Communicator& comm, StepTimes times);

struct StepResult {
  double loss = 0;           // sum of weight x loss over the real samples of the global batch / their number
  std::int64_t samples = 0;  // real ones of the global batch
  StopRequest stop = StopRequest::kNone;  // of any rank
};

struct StepOptions {
  TrainOptions train;
  OptimizerOptions optimizer;
  CommOptions comm;
  NetworkOptions network;  // its batch is that of a pass, which the step finds out
};

class TrainStep {
 public:
  /// The weights are drawn from train.seed.
  /// @param tuning  as in Network
  TrainStep(Communicator& comm, const Context& context, const StepOptions& options, const Graph& graph,
            const Objective& objective, ConvTuning* tuning = nullptr);
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  /// Takes the next batch of the loader (made for share()) through the network and updates the weights.  Throws on all
  /// ranks, with weights as they were, where one fails; a failure where the loss is not finite, naming step and rank.
  StepResult run(Loader& loader, float learning_rate);

  Network& network() { return *network_; }
  const Network& network() const { return *network_; }
  /// Targets that it reads of a batch.
  const std::vector<TargetSpec>& targets() const { return losses_.targets(); }
  const BatchShare& share() const { return share_; }
  std::int64_t steps() const { return step_; }  // done
  const StepTimes& times() const { return times_; }
  void reset_times();
  /// Arrays that the next update depends on beside weights and steps(): "optimizer/<state>/<layer>/<name>".
  std::vector<NamedArray> optimizer_arrays() const;
  /// Goes on after `step` steps with these arrays.  Throws a user error naming `path` where they are of another network
  /// or optimizer.
  void restore(std::int64_t step, const std::vector<NamedArray>& optimizer_arrays, const std::string& path);
  /// The sum of gradients that the last step used, flat, in MemorySpace.
  const float* gradient() const { return exchange_->gradient(); }
  std::size_t optimizer_bytes() const { return optimizer_->state_bytes(); }

 private:
  double run_pass(const Batch& batch, std::int64_t pass, StepState state);
  void sum_over_ranks(std::span<double> values);
  void finish_rank_sums();

  Communicator& comm_;
  Context context_;
  std::uint64_t seed_;
  BatchShare share_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientExchange> exchange_;
  std::unique_ptr<Communicator> norm_group_;  // the ranks that layers sum over; null: all
  std::function<void(std::span<double>)> sum_over_ranks_;
  std::vector<Network::RankSum> rank_sums_;  // of a pass
  std::size_t rank_sums_done_ = 0;
  ObjectiveRun losses_;
  PassInputs inputs_;
  std::vector<Tensor> outputs_, output_gradients_;  // of the network
  // Sums of a step: losses (BatchShare::parts); then the number of failed ranks, of those with a signal, of those whose
  // wall time is up.
  std::vector<double> parts_;
  std::int64_t step_ = 0;
  StepTimes times_;
};

}  // namespace petaflow
