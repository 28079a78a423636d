// Forward and backward of the micro-batches of a step, and the sums over ranks that layers ask for in them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/context.hpp"
#include "base/replay.hpp"
#include "comm/communicator.hpp"
#include "data/loader.hpp"
#include "nn/network.hpp"
#include "nn/objective.hpp"
#include "train/batch_share.hpp"
#include "train/gradient_exchange.hpp"
#include "train/micro_batch_inputs.hpp"
#include "train/step_times.hpp"

namespace petaflow {

class MicroBatchRunner {
 public:
  /// The weights are drawn from train.seed.  Collective.
  /// @param comm     the ranks that work through a step together
  /// @param network  its batch is set here to that of a micro-batch
  /// @param tuning   as in Network
  MicroBatchRunner(Communicator& comm, const Context& context, const TrainOptions& train, const CommOptions& options,
                   NetworkOptions network, const Graph& graph, const Objective& objective, ConvTuning* tuning);
  MicroBatchRunner(const MicroBatchRunner&) = delete;
  MicroBatchRunner& operator=(const MicroBatchRunner&) = delete;

  /// Gives the network one of them, or no samples.
  /// @param micro_batch  of this rank's share of the batch
  void load(const Batch& batch, std::int64_t micro_batch, const StepState& state, StepClock& clock);
  void load_nothing() { inputs_.load_nothing(context_); }
  /// Takes it through the network; gradients go to `exchange` as they get ready.  Returns the sum of the losses.
  /// @param replay  of the passes with this exchange; null where what the host does between them differs
  /// @param loader  whose next batch is the next one to load(), and may come meanwhile; null where it is not
  double run(GradientExchange& exchange, Replay* replay, Loader* loader, StepClock& clock);
  /// Behind each run(), also one that failed or was left out: what the others go on to sum, and in between what they
  /// find ready to be exchanged, all in their order.
  void finish_rank_sums(GradientExchange& exchange, StepClock& clock);

  /// Whether layers sum over ranks during a micro-batch, by the host.
  bool sums_over_ranks() const { return !rank_sums_.empty(); }
  /// What run() calls while it computes, as Context::poll.  It must live on.
  void poll_by(const std::function<void(bool)>& poll) { context_.poll = &poll; }

  Network& network() { return *network_; }
  const Network& network() const { return *network_; }
  /// Targets that it reads of a batch.
  const std::vector<TargetSpec>& targets() const { return losses_.targets(); }
  const BatchShare& share() const { return share_; }
  /// Of a training step, with the step state of the running micro-batch.
  const Context& context() const { return context_; }

 private:
  void sum_over_ranks(std::span<double> values);
  void run_passes(GradientExchange& exchange, StepClock& clock);

  Communicator& comm_;
  Context context_;
  BatchShare share_;
  std::unique_ptr<Communicator> norm_group_;  // the ranks that layers sum over; null: all
  ObjectiveRun losses_;
  MicroBatchInputs inputs_;
  std::unique_ptr<Network> network_;
  std::function<void(std::span<double>)> sum_over_ranks_;
  std::vector<Network::RankSum> rank_sums_;  // of a micro-batch
  std::size_t rank_sums_done_ = 0;
  bool ran_ = false;                      // the passes of the micro-batch came to their end
  GradientExchange* exchange_ = nullptr;  // of the running micro-batch, as what follows
  StepClock* clock_ = nullptr;            // of the running micro-batch
  std::vector<Tensor> outputs_, output_gradients_;
};

}  // namespace petaflow
