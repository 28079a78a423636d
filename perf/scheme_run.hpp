// One training of HEP's network by a scheme of updates, on virtual or real ranks, and how its loss fell.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "comm/agree.hpp"
#include "hep/task.hpp"
#include "modelled_time.hpp"
#include "program/options.hpp"
#include "servers/optimized_layer.hpp"
#include "servers/served_rank.hpp"
#include "simulate/virtual_world.hpp"
#include "train/inference.hpp"
#include "train/predictor.hpp"
#include "train/stop_request.hpp"
#include "train/trainer.hpp"

namespace petaflow::perf {

/// What is learnt.
struct Problem {
  hep::HepTask& task;
  const Dataset& train;
  const Dataset& validation;
};

/// When a training is over before its last step.
struct Goal {
  double loss = 0;  // mean of the last `window` updates
  std::int64_t window = 1;
  double limit_s = INFINITY;  // of the ranks' time
};

struct Outcome {
  std::vector<double> at_s, loss;        // of each update, in the order of their steps: when worker 0 heard of it
  std::vector<double> mean_s, mean;      // of the last `window` updates, from the first whole window on
  bool reached = false, failed = false;  // failed: a loss was not finite
  double auc = NAN;                      // of the validation set, where the goal was reached
  double staleness = 0;                  // mean over gradients

  std::int64_t updates() const { return std::ssize(at_s); }
  double end_s() const { return at_s.empty() ? 0 : at_s.back(); }
  double update_s() const { return end_s() / static_cast<double>(updates()); }
  /// Without the first quarter of them, in which memory is touched for the first time.
  double later_update_s() const {
    const std::size_t first = at_s.size() / 4;
    return (end_s() - at_s[first]) / static_cast<double>(at_s.size() - 1 - first);
  }
};

/// Keeps the losses, and asks all ranks to stop at the goal.
class Follower final : public TrainingListener {
 public:
  Follower(Transport& transport, const Goal& goal, Outcome& outcome)
      : transport_(transport), goal_(goal), outcome_(outcome) {}

  void begin() override { begun_s_ = transport_.now_s(); }
  void interval(const IntervalLine& line) override {
    if (outcome_.reached) return;  // steps that others had begun
    outcome_.at_s.push_back(transport_.now_s() - begun_s_);
    outcome_.loss.push_back(line.loss);
    const std::int64_t window = goal_.window;
    if (outcome_.updates() >= window) {
      outcome_.mean_s.push_back(outcome_.end_s());
      outcome_.mean.push_back(std::accumulate(outcome_.loss.end() - window, outcome_.loss.end(), 0.0) /
                              static_cast<double>(window));
      outcome_.reached = outcome_.mean.back() <= goal_.loss;
    }
    if (outcome_.reached || outcome_.end_s() > goal_.limit_s) limit_wall_time(1e-9);
  }

 private:
  Transport& transport_;
  Goal goal_;
  Outcome& outcome_;
  double begun_s_ = 0;
};

/// The AUC of a network on the validation set, found by this rank alone.
inline double auc_of(const Problem& problem, const CommonOptions& options, Network& network,
                     const Objective& objective) {
  Communicator alone;
  Predictor predictor(alone, Context(), network, objective, problem.validation, options.data);
  const auto evaluator = problem.task.evaluator(problem.validation, Depth::kQuick);
  evaluate(alone, predictor, problem.validation.size(), *evaluator);
  const Evaluation evaluation = evaluator->evaluate();
  const NamedMetric* auc = evaluation.find("auc");
  return auc == nullptr ? NAN : auc->value;
}

inline double mean_staleness(const FitResult& fit) {
  double gradients = 0, sum = 0;
  for (const LayerService& service : fit.service) {
    for (std::size_t staleness = 0; staleness < service.staleness.size(); ++staleness) {
      const auto count = static_cast<double>(service.staleness[staleness]);
      gradients += count;
      sum += static_cast<double>(staleness) * count;
    }
  }
  return gradients > 0 ? sum / gradients : 0;
}

/// A worker's part of a training.
/// @param servers  null: workers update the weights themselves
/// @param outcome  of worker 0
inline void train_worker(const Problem& problem, const CommonOptions& options, const Goal& goal, Communicator& workers,
                         Communicator& group, ServerSession* servers, Outcome& outcome) {
  const Objective objective = problem.task.objective();
  TrainStep step(group, Context(), step_options(options), problem.task.model(problem.task.sample_shape()), objective);
  Trainer trainer(trainer_options(options, "loss"), workers, Context(), step, problem.train,
                  problem.task.augmentation(problem.train), nullptr);
  const bool first = workers.rank() == 0;
  Follower follower(workers.transport(), goal, outcome);
  TrainingListener nobody;
  try {
    if (servers != nullptr) trainer.connect(*servers);
    const FitResult fit = trainer.fit(first ? follower : nobody);
    if (!first) return;
    outcome.staleness = mean_staleness(fit);
    if (!outcome.reached) return;
    limit_wall_time(0);
    outcome.auc = auc_of(problem, options, step.network(), objective);
  } catch (const AgreedError& error) {
    if (error.kind() == ErrorKind::kUser) throw;
    outcome.failed = true;
  }
}

/// A rank's part: with update.servers the last ranks are these, or have them inside.
inline void train_rank(const Problem& problem, const CommonOptions& options, const Goal& goal,
                       std::unique_ptr<Transport> transport, Outcome& outcome) {
  Communicator comm(std::move(transport));
  const ServerLayout layout = server_layout(options, comm.size());
  if (layout.servers == 0) return train_worker(problem, options, goal, comm, comm, nullptr, outcome);
  OptimizerOptions optimizer = options.optimizer;
  optimizer.ranks = layout.members();
  ServedRank rank(comm, layout, {optimized_layers(optimizer, layout.groups), serving_order(options)});
  if (!rank.works()) {
    rank.serve();
    return;
  }
  train_worker(problem, options, goal, rank.workers(), rank.group(), &rank.session(), outcome);
  rank.session().end(0);
}

/// Every rank sends one message after the other, at a bandwidth; each arrives a latency later.
class SimpleNetwork final : public FixedArrivals {
 public:
  SimpleNetwork(double latency_s, double bytes_per_s) : latency_s_(latency_s), bytes_per_s_(bytes_per_s) {}
  double arrival_s(int from, int, std::size_t bytes, double start_s) override {
    free_s_.resize(std::max(free_s_.size(), static_cast<std::size_t>(from) + 1));
    double& free_s = free_s_[static_cast<std::size_t>(from)];
    free_s = std::max(free_s, start_s) + static_cast<double>(bytes) / bytes_per_s_;
    return free_s + latency_s_;
  }

 private:
  double latency_s_, bytes_per_s_;
  std::vector<double> free_s_;
};

/// A training on virtual ranks.
inline Outcome train_virtually(const Problem& problem, const CommonOptions& options, const Goal& goal, int ranks,
                               const StepModel& model, SimpleNetwork network) {
  VirtualOptions virtual_options;
  virtual_options.stack_bytes = 4 << 20;
  virtual_options.seed = model.seed;
  VirtualWorld world(ranks, network, virtual_options);
  Outcome outcome;
  limit_wall_time(0);
  world.run([&](std::unique_ptr<Transport> transport) {
    train_rank(problem, options, goal, with_model(std::move(transport), model, true), outcome);
  });
  limit_wall_time(0);
  return outcome;
}

/// Seconds that this machine takes for the pieces of a rank's step: medians of some steps of so many samples.
inline std::vector<double> measure_pieces(const Problem& problem, CommonOptions options, std::int64_t samples) {
  constexpr std::int64_t kWarmup = 3, kSteps = 21;
  options.update = {};
  options.train.batch = samples;
  std::vector<double> seconds;
  Communicator alone(paced(make_self_transport(), [&](double passed_s) {
    seconds.push_back(passed_s);
    return 0.0;
  }));
  const Objective objective = problem.task.objective();
  TrainStep step(alone, Context(), step_options(options), problem.task.model(problem.task.sample_shape()), objective);
  Loader loader(problem.train, loader_options(options.train, options.data, step.share()));
  for (std::int64_t s = 0; s < kWarmup + kSteps; ++s) {
    if (s % loader.steps_per_epoch() == 0) loader.start_epoch(s);
    step.run(loader, 0);
  }
  const std::size_t pieces = seconds.size() / static_cast<std::size_t>(kWarmup + kSteps);
  std::vector<double> medians;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    std::vector<double> all;
    for (std::size_t i = kWarmup * pieces + piece; i < seconds.size(); i += pieces) all.push_back(seconds[i]);
    std::ranges::nth_element(all, all.begin() + kSteps / 2);
    medians.push_back(all[kSteps / 2]);
  }
  return medians;
}

}  // namespace petaflow::perf
