// For whom ranks wait and for how long, on virtual time: what they say of it agrees with how long they computed.
#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../perf/modelled_time.hpp"
#include "measure/rates.hpp"
#include "simulate/virtual_world.hpp"
#include "tiny_training.hpp"
#include "uniform_network.hpp"
#include "virtual_trainer.hpp"

namespace petaflow {
namespace {

using testing_support::UniformNetwork;

VirtualOptions options_of_world() {
  VirtualOptions options;
  options.stack_bytes = 4 << 20;
  return options;
}

constexpr int kRanks = 3, kSlow = 1;

/// What a rank says after a run.
struct Told {
  std::vector<double> waited_s;
  std::vector<BucketTimes> buckets;
  double took_s = 0;
};

constexpr int kSteps = 20;

/// Steps of which a rank computes in pieces of so many seconds each.
std::vector<Told> train(int ranks, const CommonOptions& options, double latency_s,
                        const std::function<double(int rank)>& piece_s) {
  UniformNetwork network(latency_s, 0);
  VirtualWorld world(ranks, network, options_of_world());
  std::vector<Told> told(static_cast<std::size_t>(ranks));
  world.run([&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    Communicator comm(perf::paced(std::move(transport), [=](double) { return piece_s(rank); }));
    tiny::Training training(comm, options, 96, 0, false);
    training.run(2);  // in the first step nobody knows yet who is slow
    training.step.reset_times();
    const double start_s = comm.transport().now_s();
    training.run(kSteps);
    told[static_cast<std::size_t>(rank)] = {training.step.waited_s(), training.step.bucket_times(),
                                            comm.transport().now_s() - start_s};
    training.step.settle();
  });
  return told;
}

/// 1 ms, of one rank 8.
double piece_of(int rank) { return rank == kSlow ? 8e-3 : 1e-3; }

std::vector<Told> train_with_a_slow_rank(const CommonOptions& options, double latency_s) {
  return train(kRanks, options, latency_s, piece_of);
}

TEST(Waits, AreForTheSlowRank) {
  for (const bool sharded : {false, true}) {
    for (const bool overlap : {false, true}) {
      CommonOptions options = tiny::options();
      options.comm.bucket_mb = 1e-4;
      options.comm.reduction = sharded ? "auto" : "halving";
      options.comm.overlap = overlap;
      options.update.sharded = sharded;
      const std::vector<Told> told = train_with_a_slow_rank(options, 1e-6);
      for (int rank = 0; rank < kRanks; ++rank) {
        const Told& mine = told[static_cast<std::size_t>(rank)];
        const double all_s = std::accumulate(mine.waited_s.begin(), mine.waited_s.end(), 0.0);
        if (rank == kSlow) {
          EXPECT_LT(all_s, 0.01 * mine.took_s);
        } else {
          EXPECT_NEAR(mine.waited_s[kSlow], 7.0 / 8 * mine.took_s, 0.01 * mine.took_s) << rank << sharded << overlap;
          EXPECT_LT(all_s - mine.waited_s[kSlow], 0.01 * mine.took_s);
        }
      }
    }
  }
}

// Sums that begin at the end of the backward pass hide behind nothing but what comes before the wait: a last piece.
TEST(Waits, AreExposedPartsOfSums) {
  CommonOptions options = tiny::options();
  options.comm.bucket_mb = 1e-4;
  options.comm.reduction = "halving";
  for (const bool overlap : {false, true}) {
    options.comm.overlap = overlap;
    const std::vector<Told> told = train_with_a_slow_rank(options, 2e-3);
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<BucketTimes>& buckets = told[static_cast<std::size_t>(rank)].buckets;
      ASSERT_GT(buckets.size(), 1U);
      for (std::size_t i = 0; i < buckets.size(); ++i) {
        const double hidden_s = buckets[i].under_way_s - buckets[i].exposed_s;
        EXPECT_EQ(buckets[i].sums, kSteps);
        EXPECT_GE(buckets[i].exposed_s, 0);
        if (!overlap || i + 1 == buckets.size()) {
          EXPECT_NEAR(hidden_s, kSteps * piece_of(rank), 1e-9) << rank << overlap;
        } else {
          EXPECT_GT(hidden_s, kSteps * piece_of(rank) - 1e-9) << rank;
        }
      }
    }
  }
}

// What ranks agree on takes 2 rounds of messages, and sums take theirs meanwhile.
TEST(Waits, ForOthersDoNotHoldUpSums) {
  constexpr double kLatency = 20e-3;
  CommonOptions options = tiny::options();
  options.comm.bucket_mb = 1e-4;
  for (const auto& [reduction, rounds] : {std::pair("halving", 4), std::pair("doubling", 2)}) {
    options.comm.reduction = reduction;
    for (const Told& mine : train(4, options, kLatency, [](int) { return 0.0; })) {
      EXPECT_NEAR(mine.took_s / kSteps, rounds * kLatency, 1e-6) << reduction;
    }
  }
}

// Groups of one, each at a pace of its own; the second one also takes time by the clock.
TEST(Waits, OfGroupsAreForTheSlowOneAndCommunication) {
  UniformNetwork network(1e-6, 0);
  VirtualWorld world(2, network, options_of_world());
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator all(std::move(transport));
    const std::unique_ptr<Communicator> alone = all.split(all.rank());
    tiny::Training training(*alone, tiny::options(), 96, 0, false);
    const auto meet = [&] { training.step.meet(all, [] {}); };
    meet();
    training.step.reset_times();
    all.transport().work(all.rank() == 0 ? 1 : 5);
    if (all.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    meet();
    const std::vector<double>& waited_s = training.step.waited_across_s();
    ASSERT_EQ(waited_s.size(), 3U);
    EXPECT_NEAR(waited_s[1], all.rank() == 0 ? 4 : 0, 1e-4);
    EXPECT_NEAR(waited_s[0], 0, 1e-4);
    if (all.rank() == 0) {
      EXPECT_GE(training.step.times().communication, 0.02);
    }
    training.step.average_over(all);
    EXPECT_EQ(training.step.waited_across_s().size(), 3U);
  });
}

// Groups of one: nothing is done while a push is under way, which takes a latency there and one back.
TEST(Waits, OfPushesToServersAreKnownByLayer) {
  CommonOptions options = tiny::options();
  options.train.steps = 20;
  options.update.groups = 2;
  options.update.servers = 1;
  const testing_support::VirtualRun run = testing_support::train_virtually(options, 2);
  ASSERT_EQ(run.fit.service.size(), 3U);
  std::int64_t elements = 0;
  for (const LayerService& layer : run.fit.service) {
    elements += layer.elements;
    EXPECT_EQ(layer.gradients(), 20) << layer.layer;
    EXPECT_GE(layer.times.under_way_s, 20 * 2e-4);
    EXPECT_NEAR(layer.times.exposed_s, layer.times.under_way_s, 1e-9);
    const nlohmann::json json = to_json(layer);
    EXPECT_EQ(json["sent_bytes"], 4 * layer.elements);
    EXPECT_EQ(json["received_bytes"], 4 * layer.elements);
    EXPECT_NEAR(json["mb_per_s"].get<double>() * json["under_way_ms"].get<double>(), 8e-3 * double(layer.elements),
                1e-6);
  }
  EXPECT_EQ(elements, std::ssize(run.weights));
}

}  // namespace
}  // namespace petaflow
