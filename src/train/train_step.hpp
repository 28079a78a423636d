// One step of synchronous data-parallel training: every rank works through its share of the global batch, the gradients
// are summed over ranks, and every rank makes the same update.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
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
#include "servers/session.hpp"
#include "train/options.hpp"
#include "train/pass_inputs.hpp"
#include "train/stop_request.hpp"
#include "train/sync.hpp"
#include "train/training_state.hpp"
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
  /// Sum of weight x loss over the real samples of a global batch / their number: of the step whose gradient was used,
  /// none where there was no such step.
  std::optional<double> loss;
  std::int64_t samples = 0;               // real ones of this step's global batch
  StopRequest stop = StopRequest::kNone;  // of any rank
};

struct StepOptions {
  TrainOptions train;
  OptimizerOptions optimizer;
  UpdateOptions update;
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

  /// Takes the next batch of the loader (made for share()) through the network and updates the weights: by its
  /// gradient, or with update.lag = k by that of k steps before, which has been summed over ranks in the meantime, at
  /// this step's learning rate; the first k steps change no weights (Kurth et al., SC18, section V-B4, who update them
  /// by zeros). Throws on all ranks, with weights as they were, where one failed in the step whose gradient it is; a
  /// failure where its loss is not finite, naming step and rank.
  StepResult run(Loader& loader, float learning_rate);
  /// With update.servers: who updates the weights from now on, instead of nobody.  The first group's weights and states
  /// go there.  On all workers.
  void connect(ServerSession& servers, Communicator& workers);
  /// With update.groups: the next step is this one; other groups take those between.
  void go_on_at(std::int64_t step) { step_ = step; }
  /// With update.average_every: weights and states become their mean over groups.
  /// @param across  those of the groups that have this one's number among their members
  void average_over(Communicator& across);
  /// Waits for the gradients that are still to be used, so that nothing is under way; with update.servers all get the
  /// newest weights; with update.sharded or update.servers rank 0 gets the states that others keep.  Throws as run().
  void settle();

  Network& network() { return *network_; }
  const Network& network() const { return *network_; }
  /// Targets that it reads of a batch.
  const std::vector<TargetSpec>& targets() const { return losses_.targets(); }
  const BatchShare& share() const { return share_; }
  std::int64_t steps() const { return step_; }  // done
  const StepTimes& times() const { return times_; }
  void reset_times();
  /// After settle(), where states are divided on rank 0 alone: arrays that the next updates depend on beside weights
  /// and steps(), "optimizer/<state>/<layer>/<name>" and the gradients that are still to be used, "lag/<0: the
  /// next>/<layer>/<name>".
  std::vector<NamedArray> arrays() const;
  /// After settle(): the steps of those gradients.
  std::vector<LaggedStep> lagged() const;
  /// Goes on after `step` steps with these.  Throws a user error naming `path` where they are of another network,
  /// optimizer or lag.
  void restore(std::int64_t step, const std::vector<NamedArray>& arrays, const std::vector<LaggedStep>& lagged,
               const std::string& path);
  /// The sum of gradients that the last update used, flat, in MemorySpace; with update.sharded of own slices alone.
  const float* gradient() const { return flights_[used_].exchange->gradient(); }
  /// How gradients come together, for the log; "" on one rank.
  std::string describe_exchange() const;
  std::size_t optimizer_bytes() const { return optimizer_->state_bytes(); }

 private:
  /// A step between its backward pass and its update.
  struct Flight {
    std::unique_ptr<GradientExchange> exchange;
    std::unique_ptr<Reduction<double>> agreement;  // of `parts`
    // Sums of a step: losses (BatchShare::parts); then the number of failed ranks, of those with a signal, of those
    // whose wall time is up.
    std::vector<double> parts;
    double mine = 0;           // loss of this rank
    std::int64_t step = -1;    // none
    std::int64_t samples = 0;  // as in StepResult
    bool summed = false;       // nothing of it is under way
    std::exception_ptr error;  // of this rank
  };
  /// The ranks of this step are one group of several, which messages name.
  bool grouped() const { return served_ || updates_every_ > 1; }
  std::size_t index_of(std::int64_t step) const { return static_cast<std::size_t>(step) % flights_.size(); }
  Flight& flight_of(std::int64_t step) { return flights_[index_of(step)]; }
  const Flight& flight_of(std::int64_t step) const { return flights_[index_of(step)]; }
  /// The first step whose gradient is still to be used; steps(): there is none.
  std::int64_t first_lagged() const { return std::max<std::int64_t>(0, step_ + 1 - std::ssize(flights_)); }
  void update_at_once(const Flight& flight);
  double run_pass(Flight& flight, const Batch& batch, std::int64_t pass, StepState state);
  void sum_over_ranks(std::span<double> values);
  void finish_rank_sums(Flight& flight);
  void start_agreement(Flight& flight);
  void agree_on(Flight& flight);
  StepResult finish_on_servers(Flight& flight, float learning_rate);
  double loss_of(const Flight& flight) const;
  static StopRequest stop_of(const Flight& flight);
  void gather_states();
  void transfer(LayerHeader header, float* values);

  Communicator& comm_;
  Context context_;
  CommOptions options_;
  bool sharded_;  // the state of the optimizer is divided among the ranks
  bool served_;   // by servers
  ServerSession* servers_ = nullptr;
  std::int64_t updates_every_;  // steps from one that these weights take to the next
  std::uint64_t seed_;
  BatchShare share_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::vector<float>> gathered_;  // rank 0 where sharded_: each state of all parameters, from settle()
  std::unique_ptr<Communicator> norm_group_;  // the ranks that layers sum over; null: all
  std::function<void(std::span<double>)> sum_over_ranks_;
  std::vector<Network::RankSum> rank_sums_;  // of a pass
  std::size_t rank_sums_done_ = 0;
  ObjectiveRun losses_;
  PassInputs inputs_;
  std::vector<Tensor> outputs_, output_gradients_;  // of the network
  std::vector<Flight> flights_;                     // lag + 1, taken in turn
  std::function<void()> progress_;                  // of the others' sums; empty: there are none
  std::size_t used_ = 0;                            // the one whose gradient was used last
  std::exception_ptr error_;                        // the first failure of this rank, until all know of it
  std::int64_t step_ = 0;
  StepTimes times_;
};

}  // namespace petaflow
