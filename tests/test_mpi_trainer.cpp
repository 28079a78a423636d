// Training on several ranks against training on one, which every rank repeats alone.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "base/element.hpp"
#include "comm/communicator.hpp"
#include "comm/mpi.hpp"
#include "tiny_training.hpp"
#include "train/predictor.hpp"

namespace petaflow {
namespace {

using tiny::options;

/// Promises of the trainer in every precision.
class TrainerInPrecision : public testing::TestWithParam<std::string> {
 protected:
  static CommonOptions options() {
    CommonOptions options = tiny::options();
    options.precision = GetParam();
    return options;
  }
};

std::vector<std::string> precisions() {
  if (kTakesFp16) return {"f32", "bf16", "fp16"};
  return {"f32", "bf16"};
}

INSTANTIATE_TEST_SUITE_P(Precisions, TrainerInPrecision, testing::ValuesIn(precisions()),
                         [](const auto& precision) { return precision.param; });

TEST_P(TrainerInPrecision, DeterministicTrainingIsTheSameOnAnyNumberOfRanks) {
  const auto all = make_mpi_communicator();
  Communicator alone;
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

TEST_P(TrainerInPrecision, BatchNormOverShardsIsTheSameOnAnyNumberOfRanks) {
  const auto all = make_mpi_communicator();
  Communicator alone;
  CommonOptions deterministic = options();
  deterministic.train.deterministic = true;
  deterministic.optimizer.larc = 0.002;
  deterministic.optimizer.clip_norm = 1;
  for (const char* optimizer : {"adamw", "sgd"}) {
    deterministic.optimizer.name = optimizer;
    deterministic.optimizer.weight_decay = 0.1;
    tiny::Training together(*all, deterministic, 43, 0.5F, true, BatchNormScope::kMicroBatch);
    tiny::Training single(alone, deterministic, 43, 0.5F, true, BatchNormScope::kMicroBatch);
    EXPECT_EQ(together.run(30), single.run(30)) << optimizer;
    EXPECT_EQ(together.weights(), single.weights()) << optimizer;  // and running statistics
  }
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference = std::max(difference, std::abs(a[i] - b[i]));
  return difference;
}

TEST(Trainer, BatchNormOverTheGlobalBatchIsThatOfOneRank) {
  const auto all = make_mpi_communicator();
  Communicator alone;
  CommonOptions plain = options();
  plain.comm.bucket_mb = 1e-4;
  plain.optimizer.name = "sgd";
  for (const std::int64_t samples : {43, 7, 2}) {  // of 12 slots: on 4 ranks one, or two, have padding alone
    tiny::Training together(*all, plain, samples, 0.5F, true, BatchNormScope::kRanks);
    tiny::Training single(alone, plain, samples, 0.5F, true, BatchNormScope::kMicroBatch);
    for (const std::int64_t steps : {1, 6}) {
      EXPECT_NEAR(together.run(steps).back(), single.run(steps).back(), 1e-6);
      EXPECT_LT(largest_difference(together.weights(), single.weights()), 2e-6F) << samples;
      // Statistics of the batch in the places of the running ones.
      EXPECT_LT(largest_difference(together.gradient(), single.gradient()), 2e-6F) << samples;
    }
  }
}

// A group's share of the batch is a shard of one rank that takes statistics over shards.
TEST(Trainer, BatchNormOverGroupsOfRanksIsThatOfShards) {
  const auto all = make_mpi_communicator();
  Communicator alone;
  for (const int groups : {1, 2, 4}) {
    if (all->size() % groups != 0) continue;
    CommonOptions many = options(), one = options();
    many.optimizer.name = one.optimizer.name = "sgd";
    many.comm.norm_ranks = all->size() / groups;
    one.train.deterministic = true;
    one.train.shards = groups;
    for (const std::int64_t samples : {48, 43}) {
      tiny::Training together(*all, many, samples, 0.5F, true, BatchNormScope::kRanks);
      tiny::Training single(alone, one, samples, 0.5F, true, BatchNormScope::kMicroBatch);
      EXPECT_NEAR(together.run(6).back(), single.run(6).back(), 1e-6);
      EXPECT_LT(largest_difference(together.weights(), single.weights()), 2e-6F) << groups << " groups";
    }
  }
}

TEST(Communicator, SplitsIntoGroups) {
  const auto all = make_mpi_communicator();
  const auto odd_or_even = all->split(all->rank() % 2);
  EXPECT_EQ(odd_or_even->rank(), all->rank() / 2);
  std::array<double, 1> ranks = {static_cast<double>(all->rank())};
  odd_or_even->all_reduce_sum(std::span<double>(ranks));
  double expected = 0;
  for (int rank = all->rank() % 2; rank < all->size(); rank += 2) expected += rank;
  EXPECT_EQ(ranks[0], expected);
}

TEST(Trainer, BatchNormOverTheGlobalBatchNeedsOneMicroBatch) {
  const auto all = make_mpi_communicator();
  CommonOptions deterministic = options();
  deterministic.train.deterministic = true;
  deterministic.train.shards = all->size();
  EXPECT_NO_THROW(tiny::Training(*all, deterministic, 43, 0, false, BatchNormScope::kRanks));
  deterministic.train.shards = 6;
  try {
    const tiny::Training training(*all, deterministic, 43, 0, false, BatchNormScope::kRanks);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_NE(std::string(error.what()).find("6 shards"), std::string::npos) << error.what();
  }
}

TEST_P(TrainerInPrecision, PlainTrainingAgreesInGradientsAndLosses) {
  const auto all = make_mpi_communicator();
  Communicator alone;
  CommonOptions plain = options();
  plain.comm.bucket_mb = 1e-4;  // several buckets
  // A sum in another order may be rounded to the next number of bf16 or fp16.
  const double tolerance = GetParam() == "f32" ? 1e-6 : 1e-4;
  for (const std::int64_t batch : {12, 13, 18}) {
    plain.train.batch = batch;
    tiny::Training together(*all, plain, 43, 0.5F, true), single(alone, plain, 43, 0.5F, true);
    EXPECT_NEAR(together.run(1)[0], single.run(1)[0], tolerance);
    const std::vector<float> a = together.gradient(), b = single.gradient();
    float largest = 0, difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(b[i]));
      difference = std::max(difference, std::abs(a[i] - b[i]));
    }
    EXPECT_GT(largest, 1e-3F);
    EXPECT_LT(difference, tolerance * largest) << "batch " << batch;
  }
}

TEST(Trainer, AccumulatedMicroBatchesAreTheStepOfTheWholeBatch) {
  const auto all = make_mpi_communicator();
  CommonOptions once = options();
  once.train.batch = 32;
  once.comm.bucket_mb = 1e-4;
  for (const bool sharded : {false, true}) {
    for (const bool fixed : {false, true}) {
      once.update.sharded = sharded;
      once.comm.fixed_order = fixed;
      CommonOptions parts = once;
      parts.train.accumulate = 32 / all->size() / 2;  // micro-batches of two samples
      tiny::Training whole(*all, once, 91, 0.5F, true), accumulated(*all, parts, 91, 0.5F, true);
      EXPECT_EQ(accumulated.step.share().micro_batch, 2);
      const std::vector<double> expected = whole.run(6), found = accumulated.run(6);
      for (std::size_t step = 0; step < expected.size(); ++step) EXPECT_NEAR(found[step], expected[step], 1e-5);
      const std::vector<float> a = accumulated.weights(), b = whole.weights();
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4) << "weight " << i;
    }
  }
}

TEST(Trainer, BucketByBucketIsTheStepOfTheWholeGradient) {
  const auto all = make_mpi_communicator();
  CommonOptions plain = options();
  plain.comm.bucket_mb = 1e-5;  // a bucket for each array
  plain.optimizer.weight_decay = 0.1;
  for (const auto& [name, larc, clip] : {std::tuple("adam", 0.0, 0.0), std::tuple("adamw", 0.002, 0.0),
                                         std::tuple("sgd", 0.002, 0.0), std::tuple("sgd", 0.002, 0.1)}) {
    plain.optimizer.name = name;
    plain.optimizer.larc = larc;
    plain.optimizer.clip_norm = clip;
    tiny::Training training(*all, plain, 43, 0.5F, true, BatchNormScope::kMicroBatch);
    Optimizer whole(plain.optimizer, training.step.network().parameters());
    const testing_support::DeviceArray<float> expected(training.weights());
    StepState state;
    state.learning_rate = 0.01F;
    testing_support::DeviceState device_state;
    Context context;
    context.step = device_state.data();
    for (; state.step < 5; ++state.step) {
      training.run(1);
      device_state.set(state);
      const testing_support::DeviceArray<float> gradient(training.gradient());
      whole.step(context, 0, training.step.network().parameter_elements(), gradient.data(), expected.data());
      EXPECT_EQ(training.weights(), expected.get()) << name << " larc " << larc << " clip " << clip;
    }
  }
}

/// The gradient that the training's next step has at these weights, which stay.
std::vector<float> next_gradient(tiny::Training& training, const std::vector<float>& weights) {
  training.set_weights(weights);
  training.step.run(training.loader, 0);
  return training.gradient();
}

// The definition is a loop on one rank that keeps gradients and has an optimizer of its own.
TEST(Trainer, LagIsALoopThatKeepsGradients) {
  const auto all = make_mpi_communicator();
  Communicator alone;
  CommonOptions common = options();
  common.train.deterministic = true;
  common.comm.bucket_mb = 1e-5;
  CommonOptions source_options = common;
  source_options.optimizer.name = "sgd";  // at a rate of 0
  common.optimizer.weight_decay = 0.1;
  for (const std::int64_t lag : {0, 1, 2, 3}) {
    for (const auto& [name, larc, clip] :
         {std::tuple("adam", 0.002, 0.0), std::tuple("adamw", 0.0, 0.0), std::tuple("sgd", 0.0, 0.1)}) {
      common.update.lag = lag;
      common.optimizer.name = name;
      common.optimizer.larc = larc;
      common.optimizer.clip_norm = clip;
      tiny::Training lagged(*all, common, 43, 0.5F, true, BatchNormScope::kMicroBatch);
      tiny::Training source(alone, source_options, 43, 0.5F, true, BatchNormScope::kMicroBatch);
      Optimizer optimizer(common.optimizer, source.step.network().parameters());
      const testing_support::DeviceArray<float> weights(lagged.weights());
      testing_support::DeviceState device_state;
      Context context;
      context.step = device_state.data();
      StepState state;
      state.learning_rate = 0.01F;
      std::vector<std::vector<float>> gradients;
      for (std::int64_t step = 0; step < 9; ++step) {
        for (tiny::Training* training : {&lagged, &source}) {
          const std::int64_t per_epoch = training->loader.steps_per_epoch();
          if (step % per_epoch == 0) training->loader.start_epoch(step / per_epoch);
        }
        lagged.step.run(lagged.loader, 0.01F);
        gradients.push_back(next_gradient(source, weights.get()));
        if (step < lag) {
          EXPECT_EQ(lagged.weights(), weights.get());
          continue;
        }
        state.step = step - lag;
        device_state.set(state);
        const testing_support::DeviceArray<float> due(gradients[static_cast<std::size_t>(step - lag)]);
        optimizer.step(context, 0, source.step.network().parameter_elements(), due.data(), weights.data());
        EXPECT_EQ(lagged.weights(), weights.get()) << name << ", lag " << lag << ", step " << step;
      }
      lagged.step.settle();
    }
  }
}

TEST(Trainer, LaggedGradientsSurviveACheckpoint) {
  const auto all = make_mpi_communicator();
  CommonOptions common = options();
  common.train.deterministic = true;
  for (const std::int64_t lag : {1, 3}) {
    common.update.lag = lag;
    constexpr std::int64_t kSteps = 8;  // two epochs
    tiny::Training whole(*all, common, 43, 0.5F, true);
    const std::vector<double> losses = whole.run(kSteps);
    for (std::int64_t stop = 1; stop < kSteps; ++stop) {
      tiny::Training first(*all, common, 43, 0.5F, true), second(*all, common, 43, 0.5F, true);
      first.run(stop);
      first.step.settle();
      EXPECT_EQ(std::ssize(first.step.lagged()), std::min(lag, stop));
      second.step.restore(stop, first.step.arrays(), first.step.lagged(), {}, "first.h5");
      second.set_weights(first.weights());
      const std::int64_t per_epoch = second.loader.steps_per_epoch();
      for (std::int64_t step = stop; step < kSteps; ++step) {
        if (step == stop || step % per_epoch == 0) second.loader.start_epoch(step / per_epoch, step % per_epoch);
        EXPECT_EQ(second.step.run(second.loader, 0.01F).loss.value_or(-1), losses[static_cast<std::size_t>(step)]);
      }
      EXPECT_EQ(second.weights(), whole.weights()) << "lag " << lag << ", stopped after " << stop;
      EXPECT_THROW(tiny::Training(*all, options(), 43, 0.5F, true)
                       .step.restore(stop, first.step.arrays(), first.step.lagged(), {}, "first.h5"),
                   Error);
      second.step.settle();
    }
    whole.step.settle();
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

/// Outputs and scores of all samples.
class AllRows final : public Evaluator {
 public:
  void add(const PredictedBatch& batch) override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const PredictedOutput& output = batch.outputs.front();
      std::vector<float> row(output.value(i).begin(), output.value(i).end());
      row.insert(row.end(), output.score(i).begin(), output.score(i).end());
      rows_.add(batch.indices[i], row);
    }
  }
  void merge(Communicator& comm) override { merged = rows_.merge(comm); }
  Evaluation evaluate() override { return {}; }

  std::vector<float> merged;  // (N, 2 x 2)

 private:
  SampleRows rows_{4};
};

TEST(Trainer, PredictionsAreMergedInTheOrderOfTheData) {
  const auto all = make_mpi_communicator();
  Communicator alone;
  constexpr std::int64_t kSamples = 31;
  tiny::Training together(*all, options(), kSamples, 0.5F, true), single(alone, options(), kSamples, 0.5F, true);
  const DataOptions data;
  Predictor predictor(*all, Context(), together.step.network(), together.loss, together.data, data);
  Predictor expected_predictor(alone, Context(), single.step.network(), single.loss, single.data, data);
  for (int run = 0; run < 2; ++run) {
    AllRows found, expected;
    const EvaluationRun ours = evaluate(*all, predictor, kSamples, found);
    EXPECT_NEAR(ours.loss, evaluate(alone, expected_predictor, kSamples, expected).loss, 1e-6);
    if (all->rank() != 0) {
      EXPECT_TRUE(found.merged.empty());
      continue;
    }
    ASSERT_EQ(std::ssize(expected.merged), 4 * kSamples);
    ASSERT_EQ(found.merged.size(), expected.merged.size());
    for (std::size_t i = 0; i < found.merged.size(); ++i) EXPECT_NEAR(found.merged[i], expected.merged[i], 1e-5);
  }
}

TEST(Trainer, BatchesOfAllRanksAreInTheOrderOfTheData) {
  const auto all = make_mpi_communicator();
  constexpr std::int64_t kSamples = 31;
  tiny::Training training(*all, options(), kSamples, 0, false);
  Predictor predictor(*all, Context(), training.step.network(), training.loss, training.data, DataOptions());
  std::int64_t next = 0;
  predictor.start();
  while (const PredictedBatch* batch = predictor.next()) {
    for (const std::vector<std::byte>& part : all->gather(std::as_bytes(std::span(batch->indices)))) {
      for (std::size_t i = 0; i < part.size() / sizeof(std::int64_t); ++i) {
        std::int64_t index = 0;
        std::memcpy(&index, &part[i * sizeof index], sizeof index);
        EXPECT_EQ(index, next++);
      }
    }
  }
  EXPECT_EQ(next, all->rank() == 0 ? kSamples : 0);
}

}  // namespace
}  // namespace petaflow
