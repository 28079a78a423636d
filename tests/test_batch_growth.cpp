// Batches that grow: against runs that begin with the larger batch, from the first one's weights and state.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "scratch_folder.hpp"
#include "train/weights.hpp"
#include "virtual_trainer.hpp"

namespace petaflow {
namespace {

using testing_support::train_virtually;
using testing_support::VirtualRun;

/// Epochs of 12, 12, 6, 6, 3 and 3 steps of 91 samples.
CommonOptions growing() {
  CommonOptions options;
  options.train.batch = 8;
  options.train.shards = 4;
  options.train.seed = 5;
  options.train.epochs = 6;
  options.train.batch_epochs = {2, 4};
  options.optimizer.lr = 0.01;
  options.optimizer.weight_decay = 0.01;
  options.checkpoint.interval = 1;
  options.log.interval = 1;
  return options;
}
constexpr std::int64_t kSteps = 42;

// ---- Epochs ----

TEST(EpochPlan, CountsStepsOfEpochsWhoseBatchesGrow) {
  const EpochPlan plan(growing().train, 91);
  std::int64_t step = 0, batches = 0;
  const std::vector<std::int64_t> steps = {12, 12, 6, 6, 3, 3, 3}, factors = {1, 1, 2, 2, 4, 4, 4};
  for (std::int64_t epoch = 0; epoch < 7; ++epoch) {
    const std::int64_t of_epoch = steps[static_cast<std::size_t>(epoch)];
    EXPECT_EQ(plan.steps_of(epoch), of_epoch);
    EXPECT_EQ(plan.batches_of(epoch), factors[static_cast<std::size_t>(epoch)]);
    EXPECT_EQ(plan.first_step_of(epoch), step);
    EXPECT_EQ(plan.steps_in(static_cast<double>(epoch)), step);
    EXPECT_EQ(plan.steps_in(static_cast<double>(epoch) + 0.5), step + (of_epoch + 1) / 2);
    for (std::int64_t s = 0; s < of_epoch; ++s) {
      EXPECT_DOUBLE_EQ(plan.epoch_at(step),
                       static_cast<double>(epoch) + static_cast<double>(s) / static_cast<double>(of_epoch));
      EXPECT_EQ(plan.batches_in(step), batches);
      step += 1;
      batches += factors[static_cast<std::size_t>(epoch)];
    }
  }
}

// ---- Samples ----

/// Counts how often each sample is read, in each run of as many steps as fill an epoch.
class CountedData final : public Dataset {
 public:
  std::int64_t size() const override { return data_.size(); }
  std::array<std::int64_t, 4> sample_dims() const override { return data_.sample_dims(); }
  std::vector<TargetSpec> targets() const override { return data_.targets(); }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    ++reads[static_cast<std::size_t>(index)];
    return data_.read(index, sample);
  }
  mutable std::array<std::atomic<int>, 91> reads{};

 private:
  tiny::Data data_{91};
};

TEST(GrowingBatch, TakesEverySampleOncePerEpoch) {
  CommonOptions plain = growing();
  CommonOptions servers = plain, averages = plain;
  servers.train.batch = averages.train.batch = 16;
  servers.update.groups = averages.update.groups = 2;
  servers.update.servers = 1;
  averages.update.average_every = 2;
  for (const auto& [options, ranks] :
       {std::pair(plain, 1), std::pair(plain, 3), std::pair(servers, 4), std::pair(averages, 2)}) {
    const CountedData data;
    const VirtualRun run = train_virtually(options, ranks, nullptr, &data);
    EXPECT_EQ(run.fit.steps, kSteps);
    EXPECT_EQ(run.fit.rates.samples, 6 * 91);
    for (const auto& reads : data.reads) EXPECT_EQ(reads, 6);
    for (const IntervalLine& line : run.kept.lines) {
      EXPECT_EQ(line.lr, static_cast<double>(0.01F));
      EXPECT_EQ(line.epoch, line.step <= 24   ? (line.step - 1) / 12
                            : line.step <= 36 ? (line.step - 13) / 6
                                              : (line.step - 25) / 3);
    }
  }
}

// ---- The bits of the larger batch ----

/// Goes on after a checkpoint with a batch of its own, for the steps of an epoch.
std::vector<float> goes_on(const CommonOptions& options, int ranks, const Checkpoint& from, std::int64_t step,
                           std::int64_t epoch) {
  testing_support::UniformNetwork network;
  VirtualOptions virtual_options;
  virtual_options.stack_bytes = 4 << 20;
  VirtualWorld world(ranks, network, virtual_options);
  std::vector<float> weights;
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    tiny::Training training(comm, options, 91, 0.5F, true);
    training.step.restore(step, from.training_arrays, {}, {}, "the checkpoint");
    set_weights(training.step.network(), Context(), from.weights, "the checkpoint");
    training.loader.start_epoch(epoch);
    for (std::int64_t s = 0; s < training.loader.steps_per_epoch(); ++s) training.step.run(training.loader, 0.01F);
    training.step.settle();
    if (comm.rank() == 0) weights = training.weights();
  });
  return weights;
}

TEST(GrowingBatch, HasTheBitsOfALargerOneWithMoreMicroBatches) {
  for (const auto& [epoch, step, factor] : {std::tuple(2, 24, 2), std::tuple(4, 36, 4)}) {
    for (const std::int64_t accumulate : {1, 2}) {
      for (const bool sharded : {false, true}) {
        CommonOptions options = growing();
        options.train.accumulate = accumulate;
        options.train.epochs = epoch + 1;
        options.update.sharded = sharded;
        for (const int ranks : {1, 2, 4}) {
          SCOPED_TRACE(
              fmt::format("epoch {}, {} micro-batches, sharded {}, {} ranks", epoch, accumulate, sharded, ranks));
          const VirtualRun run = train_virtually(options, ranks);
          const auto start = std::ranges::find(run.kept.saved, step, [](const auto& saved) { return saved.first; });
          ASSERT_NE(start, run.kept.saved.end());
          CommonOptions large = options;
          large.train.batch_epochs = {};
          large.train.batch *= factor;
          large.train.accumulate *= factor;
          const std::vector<float> expected = goes_on(large, ranks, start->second, step, epoch);
          ASSERT_EQ(expected.size(), run.weights.size());
          // Owners' sums are in the order of a tree, of which four micro-batches in turn are none.
          const float tolerance = sharded && factor == 4 ? 1e-6F : 0;
          for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(run.weights[i], expected[i], tolerance);
        }
      }
    }
  }
}

// ---- Everything else ----

TEST(GrowingBatch, HasTheSameBitsOnAnyNumberOfRanksAndInEveryScheme) {
  for (const std::int64_t factor : {2, 3}) {
    CommonOptions options = growing();
    options.train.deterministic = true;
    options.train.shards = 8;
    options.train.batch_factor = factor;
    options.optimizer.ema = 0;
    const VirtualRun expected = train_virtually(options, 1);
    for (const int ranks : {2, 3, 5, 8}) {
      EXPECT_EQ(train_virtually(options, ranks).weights, expected.weights) << ranks << " ranks";
      CommonOptions sharded = options;
      sharded.update.sharded = true;
      EXPECT_EQ(train_virtually(sharded, ranks).weights, expected.weights) << ranks << " ranks, sharded";
      CommonOptions served = options;
      served.update.servers = 2;
      EXPECT_EQ(train_virtually(served, ranks).weights, expected.weights) << ranks << " ranks, servers";
    }
    options.update.lag = 2;
    EXPECT_EQ(train_virtually(options, 3).weights, train_virtually(options, 1).weights) << "lag";
  }
}

TEST(GrowingBatch, ResumesAcrossTheChangeWithTheSameBits) {
  std::vector<CommonOptions> all(4, growing());
  for (CommonOptions& options : all) options.train.deterministic = true;
  all[1].update.lag = 1;
  all[2].update.groups = 2;
  all[2].update.servers = 1;
  all[3].update.groups = 2;
  all[3].update.average_every = 1;
  for (std::size_t i = 2; i < 4; ++i) all[i].train.batch = 16;
  for (const CommonOptions& options : all) {
    const VirtualRun whole = train_virtually(options, 2);
    EXPECT_GE(std::ssize(whole.kept.saved), kSteps / 2);
    for (const auto& [step, checkpoint] : whole.kept.saved) {
      if (step < 22 || step == kSteps || (step > 26 && step < 35)) continue;
      SCOPED_TRACE(fmt::format("lag {}, servers {}, averages {}, from step {}", options.update.lag,
                               options.update.servers, options.update.average_every, step));
      const VirtualRun rest = train_virtually(options, 4, &checkpoint);
      testing_support::expect_same(rest.kept.saved.back().second, whole.kept.saved.back().second);
    }
  }
}

TEST(GrowingBatch, ResumesWithOtherEpochsAheadButNotBehind) {
  CommonOptions options = growing();
  const VirtualRun whole = train_virtually(options, 1);
  const Checkpoint& at_30 = whole.kept.saved[29].second;
  options.train.batch_epochs = {2, 5};
  EXPECT_EQ(train_virtually(options, 1, &at_30).fit.steps, 24 + 3 * 6 + 3);
  options.train.batch_epochs = {1, 5};
  EXPECT_NE(
      test::error_of([&] { train_virtually(options, 1, &at_30); }).find("began with step 31, now that is step 25"),
      std::string::npos);
  options.train.batch_epochs = {};
  EXPECT_NE(test::error_of([&] { train_virtually(options, 1, &at_30); }).find("6 steps per epoch, now there are 12"),
            std::string::npos);
}

}  // namespace
}  // namespace petaflow
