// The trainer on virtual ranks: synchronous, in groups with servers, or in groups that average.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kept_checkpoints.hpp"
#include "servers/optimized_layer.hpp"
#include "servers/served_rank.hpp"
#include "simulate/virtual_world.hpp"
#include "tiny_training.hpp"
#include "train/trainer.hpp"
#include "uniform_network.hpp"

namespace petaflow::testing_support {

struct VirtualRun {
  Keeper kept;                 // of rank 0
  std::vector<float> weights;  // the same on all ranks that train
  FitResult fit;               // of rank 0
};

/// Trains the small network on 91 samples, or on those of `data`; with update.tune_groups in other groups where it asks
/// for these.
/// @param ranks  servers are more, where they are not inside these
inline VirtualRun train_virtually(const CommonOptions& options, int ranks, const Checkpoint* from = nullptr,
                                  const Dataset* data = nullptr) {
  const UpdateOptions& update = options.update;
  const ServerLayout layout =
      server_layout(options, ranks + static_cast<int>(update.colocate_servers ? 0 : update.servers));
  UniformNetwork network;
  VirtualOptions virtual_options;
  virtual_options.stack_bytes = 4 << 20;
  VirtualWorld world(layout.ranks(), network, virtual_options);
  VirtualRun result;
  std::vector<std::vector<float>> weights(static_cast<std::size_t>(ranks));
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    ServedRank rank(comm, layout, {optimized_layers(options.optimizer, layout.groups), serving_order(options)});
    if (!rank.works()) {
      EXPECT_EQ(rank.serve(), 3);
      return;
    }
    const std::unique_ptr<Communicator> across = rank.workers().split(comm.rank() % layout.members());
    Keeper others;
    Keeper& keeper = comm.rank() == 0 ? result.kept : others;
    FitResult fit;
    const Checkpoint* begin = from;
    CommonOptions now = options;
    const auto regroup = [&](std::int64_t groups) {
      now = with_groups(options, groups);
      rank.regroup(server_layout(now, layout.ranks()));
    };
    if (begin != nullptr && update.tune_groups > 0) {
      regroup(state_from_text(begin->training, "the checkpoint").search.value().groups());
    }
    for (;;) {
      tiny::Training training(rank.group(), now, 91, 0.5F, true);
      const Dataset& samples = data != nullptr ? *data : training.data;
      Trainer trainer(trainer_options(now, "loss"), rank.workers(), Context(), training.step, samples,
                      DetectorAugment(samples.sample_dims(), AugmentOptions{}), nullptr);
      if (begin != nullptr) trainer.restore(*begin, "the checkpoint");
      if (layout.servers > 0) trainer.connect(rank.session());
      if (update.average_every > 0) trainer.average_over(*across);
      fit = trainer.fit(keeper);
      weights[static_cast<std::size_t>(comm.rank())] = training.weights();
      if (fit.end != FitEnd::kGroups) break;
      begin = &result.kept.saved.back().second;
      regroup(fit.groups);
    }
    if (layout.servers > 0) rank.session().end(3);
    if (comm.rank() == 0) result.fit = std::move(fit);
  });
  EXPECT_EQ(world.messages_left(), 0);
  for (const std::vector<float>& theirs : weights) EXPECT_EQ(theirs, weights[0]);
  result.weights = weights[0];
  return result;
}

}  // namespace petaflow::testing_support
