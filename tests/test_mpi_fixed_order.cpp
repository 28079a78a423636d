// The papers' networks, deterministic: the same bits on any number of ranks, under MPI and on virtual time, while sums
// overlap with the backward pass.
#include <cstdlib>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "cosmoflow/model.hpp"
#include "device_memory.hpp"
#include "hep/model.hpp"
#include "measure/synthetic_data.hpp"
#include "program/options.hpp"
#include "simulate/virtual_world.hpp"
#include "train/train_step.hpp"
#include "train/trainer.hpp"
#include "uniform_network.hpp"

namespace petaflow {
namespace {

struct Case {
  const char* name;
  Graph graph;
  Objective objective;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  hep::ModelOptions hep_options;
  hep_options.filters = {32, 32, 32, 32, 32};
  all.push_back({"hep", hep::model(hep_options, {1, 3, 1, 64, 64}), {"class", std::make_shared<SoftmaxLoss>()}});
  cosmoflow::ModelOptions cosmoflow_options;
  cosmoflow_options.kind = "mlperf";
  cosmoflow_options.filters = {8, 16, 32, 32, 32};
  Graph graph({1, 4, 32, 32, 32});
  cosmoflow::add_network(graph, cosmoflow_options, 4);
  all.push_back(
      {"cosmoflow", std::move(graph), {"parameters", std::make_shared<RegressionLoss>(RegressionError::kSquared)}});
  return all;
}

/// The weights after some steps.
std::vector<float> train(const Case& network, Communicator& comm) {
  const char* const asked = std::getenv("PETAFLOW_STEPS");
  const std::int64_t steps = asked == nullptr ? 10 : std::atoll(asked);
  CommonOptions options;
  options.train.batch = 16;
  options.train.shards = 16;
  options.train.deterministic = true;
  options.comm.bucket_mb = 0.02;
  const SyntheticData data(64, network.graph, network.objective.targets(output_shapes(network.graph)));
  TrainStep step(comm, Context(), step_options(options), network.graph, network.objective);
  Loader loader(data, loader_options(options.train, options.data, step.share()));
  for (std::int64_t s = 0; s < steps; ++s) {
    if (s % loader.steps_per_epoch() == 0) loader.start_epoch(s / loader.steps_per_epoch());
    step.run(loader, 1e-3F);
  }
  return testing_support::to_host<float>(step.network().weights(), step.network().parameter_elements());
}

/// PETAFLOW_RANKS=all: 1 to 16.
std::vector<int> virtual_ranks() {
  const char* const asked = std::getenv("PETAFLOW_RANKS");
  if (asked == nullptr) return {2, 3, 5, 16};
  EXPECT_STREQ(asked, "all");
  std::vector<int> ranks(16);
  std::iota(ranks.begin(), ranks.end(), 1);
  return ranks;
}

TEST(FixedOrder, HasTheSameBitsOnAnyNumberOfRanks) {
  const auto all = make_communicator();
  for (const Case& network : cases()) {
    Communicator alone;
    const std::vector<float> expected = train(network, alone);
    EXPECT_EQ(train(network, *all), expected) << network.name << " on " << all->size() << " ranks of MPI";
    if (all->size() > 1) continue;
    for (const int ranks : virtual_ranks()) {
      testing_support::UniformNetwork times;
      VirtualOptions options;
      options.stack_bytes = 4 << 20;
      options.seed = static_cast<std::uint64_t>(ranks);
      VirtualWorld world(ranks, times, options);
      world.run([&](std::unique_ptr<Transport> transport) {
        Communicator comm(std::move(transport));
        EXPECT_EQ(train(network, comm), expected) << network.name << " on " << ranks << " virtual ranks";
      });
    }
  }
}

}  // namespace
}  // namespace petaflow
