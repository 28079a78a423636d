// Training on virtual ranks: the same step, exchange and loader as under MPI, at any number of ranks.
#include <gtest/gtest.h>

#include "simulate/virtual_world.hpp"
#include "tiny_training.hpp"

namespace petaflow {
namespace {

/// A latency and a bandwidth, the same between all ranks.
class Uniform final : public NetworkModel {
 public:
  double arrival_s(int, int, std::size_t bytes, double start_s) override {
    return start_s + 1e-4 + 1e-9 * static_cast<double>(bytes);
  }
};

/// Losses and weights of a run, which must be the same on all ranks.
struct Result {
  std::vector<double> losses;
  std::vector<float> weights;
  bool operator==(const Result&) const = default;
};

Result train(int ranks, const CommonOptions& options) {
  Uniform network;
  VirtualOptions virtual_options;
  virtual_options.stack_bytes = 4 << 20;
  virtual_options.seed = static_cast<std::uint64_t>(ranks);
  VirtualWorld world(ranks, network, virtual_options);
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    tiny::Training training(comm, options, 91, 0.5F, true);
    Result& result = results[static_cast<std::size_t>(comm.rank())];
    result.losses = training.run(12);
    training.step.settle();
    result.weights = training.weights();
  });
  EXPECT_EQ(world.messages_left(), 0);
  for (const Result& result : results) EXPECT_EQ(result, results[0]);
  return results[0];
}

CommonOptions deterministic() {
  CommonOptions options;
  options.train.batch = 32;
  options.train.seed = 5;
  options.train.deterministic = true;
  options.train.shards = 16;
  options.comm.bucket_mb = 1e-4;
  return options;
}

TEST(VirtualRanks, ADeterministicRunHasTheSameBitsOnAnyNumber) {
  for (const std::int64_t lag : {0, 2}) {
    CommonOptions options = deterministic();
    options.update.lag = lag;
    const Result expected = train(1, options);
    for (int ranks = 2; ranks <= 16; ++ranks) {
      EXPECT_EQ(train(ranks, options), expected) << ranks << " ranks, lag " << lag;
    }
  }
}

TEST(VirtualRanks, AnyReductionTrainsAlike) {
  CommonOptions options = deterministic();
  options.train.deterministic = false;
  const Result expected = train(1, options);
  for (const char* reduction : {"auto", "ring", "doubling", "halving", "two_level", "tree"}) {
    for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
      if (reduction == std::string("ring") && wire != Wire::kF32) continue;
      options.comm.reduction = reduction;
      options.comm.wire = wire;
      const Result result = train(6, options);
      for (std::size_t step = 0; step < expected.losses.size(); ++step) {
        EXPECT_NEAR(result.losses[step], expected.losses[step], wire == Wire::kF32 ? 1e-5 : 2e-2) << reduction;
      }
    }
  }
}

TEST(VirtualRanks, AReductionThatCannotBeUsedIsRefused) {
  CommonOptions options = deterministic();
  options.train.deterministic = false;
  options.comm.reduction = "ring";
  options.comm.wire = Wire::kBf16;
  try {
    train(2, options);
    ADD_FAILURE() << "it trained";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_STREQ(error.what(),
                 "comm.reduction = \"ring\" cannot be used here: it would round every sum once for each rank");
  }
}

}  // namespace
}  // namespace petaflow
