// How the sum of a step's gradient becomes weights: by an optimizer whose state every rank keeps, of all weights or of
// its own slices.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "comm/counted_wait.hpp"
#include "io/checkpoint.hpp"
#include "nn/network.hpp"
#include "train/gradient_exchange.hpp"
#include "train/options.hpp"
#include "train/step_times.hpp"
#include "update/optimizer.hpp"

namespace petaflow {

class Updater {
 public:
  /// @param comm      the ranks that update together
  /// @param context   of a training step; with all other references it must outlive the updater
  /// @param exchange  of the gradients, whose own() slices are this rank's
  Updater(Communicator& comm, const Context& context, Network& network, const GradientExchange& exchange,
          const OptimizerOptions& optimizer, const UpdateOptions& update);
  virtual ~Updater() = default;
  Updater(const Updater&) = delete;
  Updater& operator=(const Updater&) = delete;

  /// Waits for the sum of the gradient and updates the weights by it; all of them are there on all ranks at the end.
  /// @param step    whose gradient it is
  /// @param summed  the sum is there already
  /// @param clock   takes the time of the optimizer
  virtual void update(GradientExchange& exchange, bool summed, std::int64_t step, float learning_rate,
                      StepClock& clock);
  /// Makes the states of all weights known to rank 0, for arrays().  Collective.
  virtual void settle(GradientExchange& exchange);
  /// States of own slices, in host memory, and back.
  std::vector<std::vector<float>> states() const;
  void set_states(const std::vector<std::vector<float>>& states);
  /// Weights and states become their mean.
  /// @param across  ranks that have the same slices
  /// @param waits   counts for whom this rank waited
  void average_over(Communicator& across, const CountWait& waits);

  /// After settle(), on rank 0: "optimizer/<state>/<layer>/<name>", and of a rule with a tuner its numbers,
  /// "optimizer/tuner", with update.servers a row for each layer.
  std::vector<NamedArray> arrays() const;
  /// Takes the states from among these arrays; how many it took.  Throws a user error naming `path` where one is
  /// missing.
  std::size_t restore(const std::vector<NamedArray>& arrays, const std::string& path);

  /// Whether an update needs more of the host than launches.
  bool asks_the_host() const { return divided_by_host_ || !optimizer_->tuner_numbers().empty(); }
  /// For the log, what follows a sum: "; every rank updates its own weights ..."; may be empty.
  virtual std::string describe() const;
  std::size_t state_bytes() const { return optimizer_->state_bytes(); }

 protected:
  Communicator& comm_;
  const Context& context_;
  Network& network_;
  std::unique_ptr<Optimizer> optimizer_;
  bool divided_;          // states are of own slices
  bool divided_by_host_;  // and weights leave the device on their way to other ranks
  bool served_;           // and states are on servers
  void gather_states();
  /// Numbers of the tuner that a checkpoint keeps, in host memory; none with most rules.
  virtual std::vector<float> tuner() const;
  /// @param numbers  as many
  virtual void set_tuner(std::span<const float> numbers);

 private:
  void update_at_once(GradientExchange& exchange, StepClock& clock);

  std::vector<std::vector<float>> gathered_;  // rank 0 where divided_: each state of all parameters, from settle()
};

}  // namespace petaflow
