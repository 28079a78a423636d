// One step of a group of ranks: each works through its share of the batch, the gradients are summed over the group, and
// an updater makes weights of the sum, here or on servers, at once or update.lag steps later.
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

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "comm/device_sum.hpp"
#include "data/loader.hpp"
#include "io/checkpoint.hpp"
#include "nn/network.hpp"
#include "nn/objective.hpp"
#include "train/averaging.hpp"
#include "train/gradient_exchange.hpp"
#include "train/loss_scale.hpp"
#include "train/micro_batch_runner.hpp"
#include "train/options.hpp"
#include "train/served_updater.hpp"
#include "train/step_agreement.hpp"
#include "train/step_times.hpp"
#include "train/stop_request.hpp"
#include "train/training_state.hpp"
#include "train/updater.hpp"
#include "train/weight_average.hpp"

namespace petaflow {

struct StepResult {
  /// Sum of weight x loss over the real samples of a global batch / their number: of the step whose gradient was used,
  /// none where there was no such step.
  std::optional<double> loss;
  std::int64_t samples = 0;                 // real ones of this step's global batch
  StopRequest stop = StopRequest::kNone;    // of any rank
  std::optional<NoiseEstimate> noise = {};  // of the step whose gradient was used, with StepOptions::noise_scale
  bool skipped = false;                     // that gradient was not finite and changed no weights (LossScale)
};

struct StepOptions {
  TrainOptions train;
  OptimizerOptions optimizer;
  UpdateOptions update;
  CommOptions comm;
  NetworkOptions network;    // its batch is that of a micro-batch, which the step finds out
  bool noise_scale = false;  // is measured, where a step has several micro-batches
};

class TrainStep {
 public:
  /// The weights are drawn from train.seed.  Collective.
  /// @param tuning  as in Network
  TrainStep(Communicator& comm, const Context& context, const StepOptions& options, const Graph& graph,
            const Objective& objective, ConvTuning* tuning = nullptr);
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  /// Takes the next batches of the loader (made for share()), those of a step, through the network and updates the
  /// weights: by its gradient, or with update.lag = k by that of k steps before, which has been summed over ranks in
  /// the meantime, at this step's learning rate; the first k steps change no weights (Kurth et al., SC18, section V-B4,
  /// who update them by zeros). Throws on all ranks, with weights as they were, where one failed in the step whose
  /// gradient it is; a failure where its loss is not finite, naming step and rank; as LossScale::use().
  StepResult run(Loader& loader, float learning_rate);
  /// With update.servers: who updates the weights from now on, instead of nobody.  The first group's weights and states
  /// go there.  On all workers; again where they are to go on from what go_back_to() set.
  /// @param momentum  as in ServerSession::connect()
  void connect(ServerSession& servers, Communicator& workers, double momentum = Control::kFromOptions);
  /// With update.servers, after settle(): what the next updates depend on.
  struct Kept {
    std::int64_t step = 0;
    std::vector<float> weights;              // flat
    std::vector<std::vector<float>> states;  // of own slices; newest in the first group
  };
  Kept keep() const;
  /// The next step is that of keep(), before connect().
  void go_back_to(const Kept& kept);
  /// With update.groups: the next step is this one; other groups take those between.
  void go_on_at(std::int64_t step) { step_ = step; }
  /// With update.average_every: waits until all groups have come here, then calls tell(), in which they tell each other
  /// how they fared.
  /// @param across  those of the groups that have this one's number among their members
  void meet(Communicator& across, const std::function<void()>& tell);
  /// Likewise: weights and states become their mean over groups.
  void average_over(Communicator& across);
  /// With update.average_late: starts the sum of weights over groups, and that of flags.
  /// @param across  as in average_over(), always the same
  /// @param flags   values summed over groups along with the weights (losses, failures, stop requests), as many each
  /// time
  void start_average(Communicator& across, std::span<const double> flags);
  /// Waits for it: the weights become their mean with the sum, by LateAverage.  Gives the sum of the flags.
  /// @param steps  of this group since then
  std::span<const double> finish_average(std::int64_t steps);
  /// With optimizer.ema: exchanges the weights with their average.
  void swap_average() { average_.swap(runner_.context(), network()); }
  /// Whether there is one: after the first update with optimizer.ema.
  bool averages() const { return average_.exists(); }
  std::vector<NamedArray> averaged_weights() const { return average_.arrays(network(), ""); }
  /// Waits for the gradients that are still to be used, so that nothing is under way; with update.servers all get the
  /// newest weights; with update.sharded or update.servers rank 0 gets the states that others keep.  Throws as run().
  void settle();
  /// Ends all sums that are under way, whatever their steps came to: before an error that all ranks throw ends the run.
  void finish_sums();

  Network& network() { return runner_.network(); }
  const Network& network() const { return runner_.network(); }
  /// Targets that it reads of a batch.
  const std::vector<TargetSpec>& targets() const { return runner_.targets(); }
  const BatchShare& share() const { return runner_.share(); }
  const StepTimes& times() const;
  std::int64_t micro_batches() const { return micro_batches_; }  // of this rank since reset_times()
  void reset_times();
  /// After settle(), where states are divided on rank 0 alone: arrays that the next updates depend on beside weights
  /// and steps(), "optimizer/<state>/<layer>/<name>" and the gradients that are still to be used, "lag/<0: the
  /// next>/<layer>/<name>"; with optimizer.ema "ema/<layer>/<name>".
  std::vector<NamedArray> arrays() const;
  /// After settle(): the steps of those gradients.
  std::vector<LaggedStep> lagged() const;
  /// Where losses are multiplied.
  std::optional<LossScaleState> loss_scale() const;
  /// Goes on after `step` steps with these.  Throws a user error naming `path` where they are of another network,
  /// optimizer or lag.
  void restore(std::int64_t step, const std::vector<NamedArray>& arrays, const std::vector<LaggedStep>& lagged,
               const std::optional<LossScaleState>& loss_scale, const std::string& path);
  /// The sum of gradients that the last update used, flat, in MemorySpace; with update.sharded of own slices alone.
  /// An optimizer that asks for updates (lamb) has left these in its place.  Up to the next run(): values of that step
  /// may take its place.
  const float* gradient() const { return flights_[used_].exchange->gradient(); }
  /// The ranks whose gradients are summed.
  const Communicator& group() const { return comm_; }
  /// How their sums went since reset_times(): buckets in the order in which they are sent, none on one rank, and the
  /// seconds in which this rank waited for each rank of group(), as GradientSum::waited_s().
  std::vector<BucketTimes> bucket_times() const;
  std::vector<double> waited_s() const;
  /// Likewise for each rank of `across` in meet(), average_over() and finish_average(); none where there was none.
  const std::vector<double>& waited_across_s() const { return waited_across_s_; }
  /// How gradients come together, for the log; "" on one rank.
  std::string describe_exchange() const;
  std::size_t optimizer_bytes() const { return updater_->state_bytes() + average_.size_bytes(); }

 private:
  /// A step between its backward pass and its update.
  struct Flight {
    std::unique_ptr<GradientExchange> exchange;
    std::unique_ptr<StepAgreement> agreement;
    std::int64_t step = -1;              // none
    std::int64_t samples = 0;            // as in StepResult
    bool summed = false;                 // nothing of it is under way
    double scale = 1;                    // of its losses; of its gradient until that is summed
    bool finite = true;                  // its summed gradient, where losses are multiplied
    std::optional<NoiseEstimate> noise;  // from its sum on, where it is measured
    // Recorded where a step asks nothing of the host in between; null: it does, or this is no GPU.
    std::unique_ptr<Replay> passes, update;
    double loss() const { return agreement->loss() / static_cast<double>(samples); }
  };
  std::size_t index_of(std::int64_t step) const { return static_cast<std::size_t>(step) % flights_.size(); }
  Flight& flight_of(std::int64_t step) { return flights_[index_of(step)]; }
  const Flight& flight_of(std::int64_t step) const { return flights_[index_of(step)]; }
  /// The first step whose gradient is still to be used; steps(): there is none.
  std::int64_t first_lagged() const { return std::max<std::int64_t>(0, step_ + 1 - std::ssize(flights_)); }
  void start(Flight& flight, Loader& loader, float learning_rate);
  void agree_on(Flight& flight);
  bool all_agree_on(Flight& flight);
  void measure_noise(Flight& flight);
  void finish_sum(Flight& flight);
  void divide(Flight& flight);
  void update(Flight& due, float learning_rate);
  CountWait count_across(const Communicator& across);

  Communicator& comm_;
  bool grouped_;                // the ranks of this step are one group of several, which messages name
  std::int64_t updates_every_;  // distance of the steps that change these weights: update.groups where groups average
  std::uint64_t seed_;
  bool measures_noise_;
  std::string exchange_text_;
  std::unique_ptr<DeviceSum> devices_;  // sums gradients; null: the host does.  Made before one rank alone can fail
  MicroBatchRunner runner_;
  WeightAverage average_;
  LossScale loss_scale_;
  std::vector<Flight> flights_;  // lag + 1, taken in turn
  std::unique_ptr<Updater> updater_;
  ServedUpdater* served_ = nullptr;          // the same, with update.servers
  std::unique_ptr<LateAverage> late_;        // from start_average() on
  std::unique_ptr<CountedMeeting> meeting_;  // of groups, from the first meet() on
  std::vector<double> met_;                  // its numbers
  std::unique_ptr<Reduction<double>> met_sum_;
  std::vector<double> waited_across_s_;
  std::function<void(bool)> poll_;  // Context::poll, where messages are under way during micro-batches
  std::size_t used_ = 0;            // the flight whose gradient was used last
  std::exception_ptr error_;        // the first failure of this rank, until all know of it
  std::int64_t step_ = 0;
  StepClock clock_;
  std::int64_t micro_batches_ = 0;
};

}  // namespace petaflow
