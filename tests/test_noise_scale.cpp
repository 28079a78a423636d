// The gradient-noise scale: of gradients with a known mean and covariance, and of a training, from the gradients of
// single samples and of micro-batches.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "train/gradient_squares.hpp"
#include "virtual_trainer.hpp"

namespace petaflow {
namespace {

using testing_support::train_virtually;
using testing_support::VirtualRun;
using Values = std::vector<double>;

double square(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

/// Mean of numbers and its standard error.
struct Mean {
  double sum = 0, squares = 0;
  int count = 0;
  void add(double value) {
    sum += value;
    squares += value * value;
    count += 1;
  }
  double value() const { return sum / count; }
  double error() const { return std::sqrt((squares / count - value() * value()) / (count - 1)); }
};

// ---- Estimates ----

TEST(NoiseScale, IsThatOfGradientsOfKnownMeanAndCovariance) {
  constexpr int kElements = 30, kBatches = 4000;
  double gradient = 0, covariance = 0;
  const auto mean = [](int i) { return 0.1 * (i % 7 - 2); };
  const auto sigma = [](int i) { return 0.2 + 0.05 * i; };
  for (int i = 0; i < kElements; ++i) {
    gradient += mean(i) * mean(i);
    covariance += sigma(i) * sigma(i);
  }
  RandomSequence random(random_stream(7, RandomPurpose::kGenerate), 1);
  for (const std::vector<int>& parts : {std::vector<int>{4, 4, 4, 4}, {1, 1}, {5, 3, 1}}) {
    Mean gradients, covariances;
    NoiseScale average;
    int samples = 0;
    for (const int part : parts) samples += part;
    for (int batch = 0; batch < kBatches; ++batch) {
      Values whole(kElements);
      double of_parts = 0;
      for (const int n : parts) {
        Values part(kElements);
        for (int sample = 0; sample < n; ++sample) {
          for (int i = 0; i < kElements; ++i) {
            part[static_cast<std::size_t>(i)] += (mean(i) + sigma(i) * random.normal()) / samples;
          }
        }
        of_parts += square(part) / n;
        for (std::size_t i = 0; i < whole.size(); ++i) whole[i] += part[i];
      }
      const auto noise = estimate_noise(of_parts, square(whole), samples, std::ssize(parts));
      ASSERT_TRUE(noise);
      gradients.add(noise->gradient);
      covariances.add(noise->covariance);
      average.add(*noise);
    }
    SCOPED_TRACE(fmt::format("{} parts of {} samples", parts.size(), samples));
    EXPECT_NEAR(gradients.value(), gradient, 4 * gradients.error());
    EXPECT_NEAR(covariances.value(), covariance, 4 * covariances.error());
    EXPECT_LT(covariances.error(), 0.02 * covariance);
    EXPECT_LT(gradients.error(), 0.1 * gradient);
    // A moving average has the error of 2 / (1 - decay) steps.
    const double few = std::sqrt(kBatches * (1 - NoiseScale::kDecay) / 2);
    EXPECT_NEAR(average.mean.covariance, covariance, 4 * few * covariances.error());
    if (samples < 16) continue;
    EXPECT_NEAR(average.value().value(), covariance / gradient, 0.5 * covariance / gradient);
  }
}

TEST(NoiseScale, IsNoneOfOnePartOrOfAMeanThatIsNotPositive) {
  EXPECT_FALSE(estimate_noise(1, 1, 8, 1));
  NoiseScale average;
  EXPECT_FALSE(average.value());
  average.add({-1, 2});
  EXPECT_FALSE(average.value());
  average.add({3, 2});
  EXPECT_GT(average.value().value(), 0);
}

// ---- Through the trainer ----

/// The gradient of what is trained.
Values trained_gradient(const tiny::Training& training) {
  const std::vector<float> all = training.gradient();
  Values trained;
  for (const Parameter& p : training.step.network().parameters()) {
    const auto begin = all.begin() + p.offset;
    if (p.spec.trained()) trained.insert(trained.end(), begin, begin + p.spec.elements());
  }
  return trained;
}

CommonOptions measured() {
  CommonOptions options;
  options.train.batch = 16;
  options.train.accumulate = 4;
  options.train.seed = 5;
  options.optimizer.lr = 0;
  options.log.noise_scale = true;
  options.log.interval = 1;
  options.comm.bucket_mb = 1e-4;
  return options;
}

constexpr std::int64_t kMicroBatch = 4;  // samples

TEST(NoiseScale, OfAStepIsThatOfTheGradientsOfItsMicroBatches) {
  for (const tiny::Norm& norm : {tiny::Norm(), tiny::Norm(BatchNormScope::kMicroBatch)}) {
    Communicator alone;
    const CommonOptions options = measured();
    CommonOptions of_micro_batch = options;
    of_micro_batch.train.batch = kMicroBatch;
    of_micro_batch.train.accumulate = 1;
    tiny::Training training(alone, options, 91, 0.5F, true, norm),
        micro_batches(alone, of_micro_batch, 91, 0.5F, true, norm);
    training.loader.start_epoch(2);
    micro_batches.loader.start_epoch(2);
    for (std::int64_t step = 0; step < 6; ++step) {
      const auto samples = static_cast<double>(training.loader.samples_of(step));
      const StepResult result = training.step.run(training.loader, 0);
      double small = 0, count = 0, left = samples;
      Values big;
      for (; left > 0; count += 1) {
        const double n = std::min<double>(kMicroBatch, left);
        left -= n;
        micro_batches.step.run(micro_batches.loader, 0);
        const Values mean = trained_gradient(micro_batches);
        small += n / samples * square(mean);
        big.resize(mean.size());
        for (std::size_t i = 0; i < big.size(); ++i) big[i] += n / samples * mean[i];
      }
      ASSERT_TRUE(result.noise);
      // Appendix A.1, with the mean size of a micro-batch.
      const double b_small = samples / count, b_big = samples, g_big = square(big);
      EXPECT_NEAR(result.noise->gradient, (b_big * g_big - b_small * small) / (b_big - b_small), 1e-5 * small);
      EXPECT_NEAR(result.noise->covariance, (small - g_big) / (1 / b_small - 1 / b_big), 1e-5 * samples * small);
    }
  }
}

TEST(NoiseScale, OfATrainingIsThatOfItsSamples) {
  // Samples that are taken once per epoch have the variance of n - 1, and less of it is in the mean over all.
  constexpr std::int64_t kSamples = 91;
  Communicator alone;
  CommonOptions options = measured(), one = options;
  one.train.batch = one.train.accumulate = 1;
  tiny::Training training(alone, options, kSamples, 0, false), single(alone, one, kSamples, 0, false);
  Values mean;
  double squares = 0;
  single.loader.start_epoch(0);
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    single.step.run(single.loader, 0);
    const Values gradient = trained_gradient(single);
    mean.resize(gradient.size());
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += gradient[i] / kSamples;
    squares += square(gradient);
  }
  const double covariance = (squares - kSamples * square(mean)) / (kSamples - 1);
  Mean gradients, covariances;
  for (std::int64_t epoch = 0; epoch < 60; ++epoch) {
    training.loader.start_epoch(epoch);
    for (std::int64_t step = 0; step < training.loader.steps_per_epoch(); ++step) {
      const StepResult result = training.step.run(training.loader, 0);
      gradients.add(result.noise->gradient);
      covariances.add(result.noise->covariance);
    }
  }
  EXPECT_NEAR(covariances.value(), covariance, 4 * covariances.error());
  EXPECT_NEAR(gradients.value(), square(mean) - covariance / kSamples, 4 * gradients.error());
  EXPECT_LT(covariances.error(), 0.1 * covariance);
}

/// Of each line.
Values noise_of(const VirtualRun& run) {
  Values values;
  for (const IntervalLine& line : run.kept.lines) values.push_back(line.noise_scale.value_or(NAN));
  return values;
}

void expect_near(const Values& found, const Values& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    EXPECT_NEAR(found[i], expected[i], 1e-3 * std::abs(expected[i])) << "line " << i;
  }
}

TEST(NoiseScale, IsTheSameOfMicroBatchesAndOfRanks) {
  CommonOptions options = measured();
  options.train.epochs = 3;
  const Values expected = noise_of(train_virtually(options, 1));
  EXPECT_GT(std::ranges::count_if(expected, [](double value) { return value > 0; }), 10);
  for (const int ranks : {2, 4}) {
    options.train.accumulate = 4 / ranks;
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const VirtualRun plain = train_virtually(options, ranks);
    expect_near(noise_of(plain), expected);
    EXPECT_EQ(plain.fit.noise_scale, plain.kept.lines.back().noise_scale);
    CommonOptions sharded = options;
    sharded.update.sharded = true;
    expect_near(noise_of(train_virtually(sharded, ranks)), expected);
    CommonOptions served = options;
    served.update.servers = 2;
    served.checkpoint.interval = 0;
    expect_near(noise_of(train_virtually(served, ranks)), expected);
  }
}

TEST(NoiseScale, HasTheSameBitsOnAnyNumberOfRanksAndAfterAResume) {
  for (const std::int64_t lag : {0, 2}) {
    CommonOptions options = measured();
    options.train.accumulate = 1;
    options.train.shards = 8;
    options.train.deterministic = true;
    options.train.epochs = 3;
    options.train.batch_epochs = {2};
    options.optimizer.lr = 0.01;
    options.update.lag = lag;
    options.checkpoint.interval = 1;
    const VirtualRun whole = train_virtually(options, 1);
    const VirtualRun two = train_virtually(options, 2);
    ASSERT_TRUE(whole.fit.noise_scale);
    EXPECT_EQ(two.fit.noise_scale, whole.fit.noise_scale);
    for (const std::size_t at : {5U, 11U, 12U, 13U}) {
      const VirtualRun rest = train_virtually(options, 4, &whole.kept.saved[at].second);
      EXPECT_EQ(rest.fit.noise_scale, whole.fit.noise_scale) << "after step " << whole.kept.saved[at].first;
      testing_support::expect_same(rest.kept.saved.back().second, whole.kept.saved.back().second);
    }
  }
}

TEST(NoiseScale, OfGroupsIsThatOfTheFirst) {
  CommonOptions options = measured();
  options.train.batch = 32;
  options.train.accumulate = 2;
  options.train.epochs = 2;
  options.update.groups = 2;
  options.update.average_every = 2;
  EXPECT_GT(train_virtually(options, 4).fit.noise_scale.value(), 0);
  options.update.average_every = 0;
  options.update.servers = 1;
  EXPECT_GT(train_virtually(options, 4).fit.noise_scale.value(), 0);
}

}  // namespace
}  // namespace petaflow
