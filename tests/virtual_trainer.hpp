// The trainer on virtual ranks: synchronous, in groups with servers, or in groups that average.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "servers/optimized_layer.hpp"
#include "servers/serve.hpp"
#include "servers/session.hpp"
#include "simulate/virtual_world.hpp"
#include "tiny_training.hpp"
#include "train/trainer.hpp"
#include "uniform_network.hpp"

namespace petaflow::testing_support {

/// Keeps what a training says and saves.
class Keeper final : public TrainingListener {
 public:
  void interval(const IntervalLine& line) override { lines.push_back(line); }
  std::string save(std::int64_t step, Checkpoint checkpoint) override {
    saved.emplace_back(step, std::move(checkpoint));
    return {};
  }
  std::vector<IntervalLine> lines;
  std::vector<std::pair<std::int64_t, Checkpoint>> saved;
};

struct VirtualRun {
  Keeper kept;                 // of rank 0
  std::vector<float> weights;  // the same on all ranks that train
  FitResult fit;               // of rank 0
};

/// Trains the small network on 91 samples, or on those of `data`.
/// @param ranks  servers are more
inline VirtualRun train_virtually(const CommonOptions& options, int ranks, const Checkpoint* from = nullptr,
                                  const Dataset* data = nullptr) {
  const int all_ranks = ranks + static_cast<int>(options.update.servers);
  const ServerLayout layout = server_layout(options, all_ranks);
  UniformNetwork network;
  VirtualOptions virtual_options;
  virtual_options.stack_bytes = 4 << 20;
  VirtualWorld world(all_ranks, network, virtual_options);
  VirtualRun result;
  std::vector<std::vector<float>> weights(static_cast<std::size_t>(ranks));
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    const bool serves = comm.rank() >= layout.workers;
    std::unique_ptr<Transport> all = comm.transport().split(0);
    const std::unique_ptr<Communicator> workers = comm.split(serves ? 1 : 0);
    const std::unique_ptr<Communicator> group = workers->split(serves ? 0 : layout.group_of(comm.rank()));
    const std::unique_ptr<Communicator> across = workers->split(serves ? 0 : comm.rank() % layout.members());
    if (serves) {
      EXPECT_EQ(serve(*all, layout, {optimized_layers(options.optimizer, layout.groups), serving_order(options)}), 3);
      return;
    }
    ServerSession session(std::move(all), layout, *group);
    tiny::Training training(*group, options, 91, 0.5F, true);
    const Dataset& samples = data != nullptr ? *data : training.data;
    Trainer trainer(trainer_options(options, "loss"), *workers, Context(), training.step, samples,
                    DetectorAugment(samples.sample_dims(), AugmentOptions{}), nullptr);
    if (from != nullptr) trainer.restore(*from, "the checkpoint");
    if (layout.servers > 0) trainer.connect(session);
    if (options.update.average_every > 0) trainer.average_over(*across);
    Keeper keeper;
    FitResult fit = trainer.fit(keeper);
    if (layout.servers > 0) session.end(3);
    weights[static_cast<std::size_t>(comm.rank())] = training.weights();
    if (comm.rank() != 0) return;
    result.kept = std::move(keeper);
    result.fit = std::move(fit);
  });
  EXPECT_EQ(world.messages_left(), 0);
  for (const std::vector<float>& theirs : weights) EXPECT_EQ(theirs, weights[0]);
  result.weights = weights[0];
  return result;
}

inline void expect_same(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.training, b.training);
  for (const auto& [ours, theirs] :
       {std::pair(&a.weights, &b.weights), std::pair(&a.training_arrays, &b.training_arrays)}) {
    ASSERT_EQ(ours->size(), theirs->size());
    for (std::size_t i = 0; i < ours->size(); ++i) {
      EXPECT_EQ((*ours)[i].name, (*theirs)[i].name);
      EXPECT_EQ((*ours)[i].values, (*theirs)[i].values) << (*ours)[i].name;
    }
  }
}

}  // namespace petaflow::testing_support
