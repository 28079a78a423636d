// Training on virtual ranks: the same step, exchange and loader as under MPI, at any number of ranks.
#include <gtest/gtest.h>

#include "simulate/virtual_world.hpp"
#include "tiny_training.hpp"
#include "uniform_network.hpp"
#include "update/rule.hpp"

namespace petaflow {
namespace {

/// Losses and weights of a run, which must be the same on all ranks.
struct Result {
  std::vector<double> losses;
  std::vector<float> weights;
  bool operator==(const Result&) const = default;
};

/// Of rank 0 after a run: what a checkpoint keeps.
struct State {
  std::vector<NamedArray> arrays;
  std::vector<LaggedStep> lagged;
};

constexpr int kSteps = 12;

/// @param from  goes on from these weights and this state, after kSteps steps
Result train(int ranks, const CommonOptions& options, State* state = nullptr, const Result* weights = nullptr,
             const State* from = nullptr) {
  testing_support::UniformNetwork network;
  VirtualOptions virtual_options;
  virtual_options.stack_bytes = 4 << 20;
  virtual_options.seed = static_cast<std::uint64_t>(ranks);
  VirtualWorld world(ranks, network, virtual_options);
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    tiny::Training training(comm, options, 91, 0.5F, true);
    Result& result = results[static_cast<std::size_t>(comm.rank())];
    if (from != nullptr) {
      training.step.restore(kSteps, from->arrays, from->lagged, {}, "the checkpoint");
      training.set_weights(weights->weights);
    }
    result.losses = training.run(kSteps);
    training.step.settle();
    result.weights = training.weights();
    if (comm.rank() == 0 && state != nullptr) {
      *state = {training.step.arrays(), training.step.lagged()};
    }
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

/// Rules, alone and with what needs norms of whole tensors or of the whole gradient.
std::vector<CommonOptions> of_each_rule() {
  std::vector<CommonOptions> all;
  for (const std::string& name : rule_names()) {
    for (const bool larc : {false, true}) {
      for (const bool clip : {false, true}) {
        CommonOptions options = deterministic();
        options.optimizer.name = name;
        options.optimizer.weight_decay = 0.01;
        options.optimizer.larc = larc ? 0.02 : 0;
        options.optimizer.decay_scope = clip ? ArrayScope::kAll : ArrayScope::kWeights;
        options.optimizer.trust_scope = clip ? ArrayScope::kWeights : ArrayScope::kAll;
        options.optimizer.clip_norm = clip ? 0.2 : 0;
        options.optimizer.ema = clip ? 0 : 0.8;
        all.push_back(options);
      }
    }
  }
  return all;
}

void expect_same(const std::vector<NamedArray>& a, const std::vector<NamedArray>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(a[i].values, b[i].values) << a[i].name;
  }
}

TEST(ShardedState, HasTheBitsOfReplicatedStateForEveryRule) {
  for (const CommonOptions& replicated : of_each_rule()) {
    for (const std::int64_t lag : {0, 1}) {
      CommonOptions options = replicated;
      options.update.lag = lag;
      State expected_state;
      const Result expected = train(1, options, &expected_state);
      options.update.sharded = true;
      for (const int ranks : {1, 2, 3, 4, 8, 16}) {
        SCOPED_TRACE(fmt::format("{} larc {} clip {} lag {} on {} ranks", options.optimizer.name,
                                 options.optimizer.larc, options.optimizer.clip_norm, lag, ranks));
        State state;
        EXPECT_EQ(train(ranks, options, &state), expected);
        expect_same(state.arrays, expected_state.arrays);
      }
    }
  }
}

TEST(ShardedState, GoesOnOnAnotherNumberOfRanks) {
  for (const char* name : {"adam", "larc", "yellowfin"}) {
    CommonOptions options = deterministic();
    options.update.lag = 1;
    const bool larc = name == std::string("larc");
    options.optimizer.name = larc ? "adam" : name;
    options.optimizer.larc = larc ? 0.02 : 0;
    State state, unsharded_state;
    const Result first = train(1, options, &unsharded_state);
    const Result expected = train(1, options, nullptr, &first, &unsharded_state);
    options.update.sharded = true;
    EXPECT_EQ(train(4, options, &state), first);
    EXPECT_EQ(train(3, options, nullptr, &first, &state), expected);
    EXPECT_EQ(train(8, options, nullptr, &first, &unsharded_state), expected);
    options.update.sharded = false;
    EXPECT_EQ(train(2, options, nullptr, &first, &state), expected);
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
                 "comm.reduction = \"ring\" cannot be used here: with narrow numbers (comm.wire) it would round every "
                 "sum once for each rank; set it to \"auto\"");
  }
}

}  // namespace
}  // namespace petaflow
