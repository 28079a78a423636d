// Training on several ranks against training on one, which every rank repeats alone.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "comm/mpi.hpp"
#include "comm/self.hpp"
#include "tiny_training.hpp"
#include "train/agree.hpp"
#include "train/predictor.hpp"

namespace petaflow {
namespace {

CommonOptions options() {
  CommonOptions options;
  options.train.batch = 12;
  options.train.shards = 4;
  options.train.seed = 5;
  return options;
}

TEST(Trainer, DeterministicTrainingIsTheSameOnAnyNumberOfRanks) {
  const auto all = make_mpi_communicator();
  SelfCommunicator alone;
  CommonOptions deterministic = options();
  deterministic.train.deterministic = true;
  for (const char* optimizer : {"adam", "sgd"}) {
    deterministic.optimizer.name = optimizer;
    // 43 samples in batches of 12: the last batch has empty slots, and an empty shard.
    tiny::Training together(*all, deterministic, 43, 0.5F, true), single(alone, deterministic, 43, 0.5F, true);
    EXPECT_EQ(together.run(50), single.run(50)) << optimizer;
    EXPECT_EQ(together.weights(), single.weights()) << optimizer;
  }
}

TEST(Trainer, PlainTrainingAgreesInGradientsAndLosses) {
  const auto all = make_mpi_communicator();
  SelfCommunicator alone;
  CommonOptions plain = options();
  plain.comm.bucket_mb = 1e-4;  // several buckets
  for (const std::int64_t batch : {12, 13, 18}) {
    plain.train.batch = batch;
    tiny::Training together(*all, plain, 43, 0.5F, true), single(alone, plain, 43, 0.5F, true);
    EXPECT_NEAR(together.run(1)[0], single.run(1)[0], 1e-6);
    const std::vector<float> a = together.gradient(), b = single.gradient();
    float largest = 0, difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(b[i]));
      difference = std::max(difference, std::abs(a[i] - b[i]));
    }
    EXPECT_GT(largest, 1e-3F);
    EXPECT_LT(difference, 1e-6F * largest) << "batch " << batch;
  }
}

TEST(Trainer, PlainAndDeterministicModeComputeTheSame) {
  const auto all = make_mpi_communicator();
  CommonOptions deterministic = options();
  deterministic.train.deterministic = true;
  tiny::Training a(*all, options(), 43, 0.5F, true), b(*all, deterministic, 43, 0.5F, true);
  const std::vector<double> losses = a.run(8), expected = b.run(8);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5);
}

TEST(Trainer, PredictionsAreGatheredInTheOrderOfTheData) {
  const auto all = make_mpi_communicator();
  SelfCommunicator alone;
  tiny::Training together(*all, options(), 31, 0.5F, true), single(alone, options(), 31, 0.5F, true);
  DataOptions data;
  Predictor predictor(*all, Context(), together.step.network(), together.loss, together.data, data);
  Predictor expected_predictor(alone, Context(), single.step.network(), single.loss, single.data, data);
  for (int run = 0; run < 2; ++run) {
    const Predictions found = predictor.run(), expected = expected_predictor.run();
    EXPECT_EQ(found.count, 31);
    EXPECT_EQ(found.channels, 2);
    EXPECT_NEAR(found.loss, expected.loss, 1e-6);
    if (all->rank() != 0) continue;
    ASSERT_EQ(found.outputs.size(), expected.outputs.size());
    for (std::size_t i = 0; i < found.outputs.size(); ++i) {
      EXPECT_NEAR(found.outputs[i], expected.outputs[i], 1e-5);
      EXPECT_NEAR(found.scores[i], expected.scores[i], 1e-5);
    }
  }
}

/// Data of which one sample cannot be read.
class BadData final : public Dataset {
 public:
  std::int64_t size() const override { return 48; }
  std::array<std::int64_t, 4> sample_dims() const override { return good_.sample_dims(); }
  Sample read(std::int64_t index, std::span<std::byte> sample, std::span<float> targets) const override {
    if (index == 17) user_error("sample 17 is broken");
    return good_.read(index, sample, targets);
  }

 private:
  tiny::Data good_{48};
};

TEST(Trainer, AnErrorOfOneRankIsThrownByAll) {
  const auto all = make_mpi_communicator();
  for (const bool deterministic : {false, true}) {
    CommonOptions common = options();
    common.train.deterministic = deterministic;
    common.data.shuffle = false;
    tiny::Training training(*all, common, 48, 0, false);
    const BadData bad;
    Loader loader(bad, training.loader_options(common, false));
    loader.start_epoch(0);
    EXPECT_NO_THROW(training.step.run(loader, 0.01F));
    try {
      training.step.run(loader, 0.01F);  // samples 12 to 23
      FAIL();
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_NE(std::string(error.what()).find("sample 17 is broken"), std::string::npos) << error.what();
    }
  }
}

TEST(Trainer, ALossThatIsNotFiniteNamesStepAndRank) {
  const auto all = make_mpi_communicator();
  tiny::Training training(*all, options(), 48, 0, false);
  training.loader.start_epoch(0);
  training.step.run(training.loader, 0.01F);
  float* const weights = training.step.network().weights();
  weights[training.step.network().parameter_elements() - 1] = std::nanf("");
  training.step.network().refresh(Context());
  try {
    training.step.run(training.loader, 0.01F);
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailure);
    EXPECT_NE(std::string(error.what()).find("step 1: the loss is nan on rank 0"), std::string::npos) << error.what();
  }
}

TEST(Agree, SpeaksOnceForAllRanks) {
  const auto all = make_mpi_communicator();
  EXPECT_NO_THROW(agree(*all, [] {}));
  const auto message = [&](const std::function<void()>& work) {
    try {
      agree(*all, work);
    } catch (const AgreedError& error) {
      return std::string(error.kind() == ErrorKind::kUser ? "user: " : "failure: ") + error.what();
    }
    return std::string("none");
  };
  EXPECT_EQ(message([] { user_error("the same"); }), "user: the same");
  const int last = all->size() - 1;
  EXPECT_EQ(message([&] {
              if (all->rank() == last) failure("only here");
            }),
            last == 0 ? "failure: only here" : "failure: rank " + std::to_string(last) + ": only here");
}

}  // namespace
}  // namespace petaflow
