// Losses that are multiplied for the sake of small gradients: no trace of it in the weights, whatever the ranks, and
// steps that overflow change nothing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "comm/mpi.hpp"
#include "tiny_training.hpp"
#include "train/loss_scale.hpp"
#include "train/training_state.hpp"
#include "update/optimizer.hpp"

namespace petaflow {
namespace {

constexpr std::int64_t kBatch = 12;

/// Batches of tiny::Data one after the other; those at `heavy` are extra ones of samples so heavy that their gradients
/// overflow when losses are multiplied.
class HeavyData final : public Dataset {
 public:
  HeavyData(std::int64_t batches, std::vector<std::int64_t> heavy) : batches_(batches), heavy_(std::move(heavy)) {}
  std::int64_t size() const override { return batches_ * kBatch; }
  std::array<std::int64_t, 4> sample_dims() const override { return data_.sample_dims(); }
  std::vector<TargetSpec> targets() const override { return data_.targets(); }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    const auto before = std::ranges::lower_bound(heavy_, index / kBatch) - heavy_.begin();
    const bool heavy = std::ranges::binary_search(heavy_, index / kBatch);
    const float weight = data_.read(index - before * kBatch, sample);
    return heavy ? 1e38F : weight;
  }

 private:
  std::int64_t batches_;
  std::vector<std::int64_t> heavy_;
  tiny::Data data_{1000};
};

CommonOptions plain_options() {
  CommonOptions options = tiny::options();
  options.train.batch = kBatch;
  options.data.shuffle = false;
  options.train.deterministic = true;
  return options;
}

CommonOptions scaled_options() {
  CommonOptions options = plain_options();
  options.train.loss_scaling = LossScaling::kDynamic;
  options.train.loss_scale = 1024;
  options.train.loss_scale_steps = 3;
  return options;
}

/// A training of one epoch over other data than tiny::Training's own.
struct Trained {
  Trained(Communicator& comm, const CommonOptions& options, const Dataset& set)
      : training(comm, options, kBatch, 0, false), loader(set, training.loader_options(options, false)) {
    loader.start_epoch(0);
  }
  std::vector<bool> run(std::int64_t steps) {
    std::vector<bool> skipped;
    for (std::int64_t s = 0; s < steps; ++s) skipped.push_back(training.step.run(loader, 0.01F).skipped);
    return skipped;
  }
  std::vector<float> weights() const { return training.weights(); }
  LossScaleState scale() const { return training.step.loss_scale().value(); }

  tiny::Training training;
  Loader loader;
};

TEST(LossScale, SkippedStepsLeaveNoTrace) {
  const auto all = make_mpi_communicator();
  const HeavyData light(6, {}), heavy(8, {0, 3});
  for (const bool sharded : {false, true}) {
    for (const std::string optimizer : {"adam", "sgd", "lamb"}) {
      CommonOptions plain = plain_options(), scaled = scaled_options();
      for (CommonOptions* options : {&plain, &scaled}) {
        options->optimizer.name = optimizer;
        options->optimizer.clip_norm = optimizer == "sgd" ? 0.1 : 0;
        options->optimizer.ema = 0.9;
        options->update.sharded = sharded;
      }
      Trained expected(*all, plain, light), found(*all, scaled, heavy);
      expected.run(6);
      EXPECT_EQ(found.run(8), std::vector<bool>({true, false, false, true, false, false, false, false}));
      // 1024 / 2, after two good ones / 2 again, doubled after three, and one more step.
      EXPECT_EQ(found.scale().scale, 512);
      EXPECT_EQ(found.scale().steps, 1);
      EXPECT_EQ(found.scale().skipped, 2);
      EXPECT_EQ(found.weights(), expected.weights()) << optimizer << (sharded ? ", sharded" : "");
      EXPECT_EQ(found.training.step.averaged_weights().front().values,
                expected.training.step.averaged_weights().front().values);
    }
  }
}

TEST(LossScale, FixedOnesLeaveNoTrace) {
  const auto all = make_mpi_communicator();
  const HeavyData light(6, {});
  for (const double scale : {0.125, 4096.0, 3.0}) {
    CommonOptions scaled = plain_options();
    scaled.train.loss_scaling = LossScaling::kStatic;
    scaled.train.loss_scale = scale;
    Trained expected(*all, plain_options(), light), found(*all, scaled, light);
    expected.run(6);
    found.run(6);
    EXPECT_EQ(found.scale().scale, scale);
    for (std::size_t i = 0; i < expected.weights().size(); ++i) {  // to the bit where the scale is a power of two
      const double tolerance = scale == 3.0 ? 1e-4 : 0;
      ASSERT_NEAR(found.weights()[i], expected.weights()[i], tolerance) << scale;
    }
  }
}

TEST(LossScale, FixedOnesThatOverflowEndTheRun) {
  const auto all = make_mpi_communicator();
  CommonOptions scaled = plain_options();
  scaled.train.loss_scaling = LossScaling::kStatic;
  scaled.train.loss_scale = 4096;
  const HeavyData heavy(4, {2});
  Trained run(*all, scaled, heavy);
  run.run(2);
  const std::vector<float> before = run.weights();
  try {
    run.run(1);
    ADD_FAILURE() << "not seen";
  } catch (const AgreedError& error) {
    EXPECT_NE(std::string(error.what()).find("step 2: the gradient is not finite with losses multiplied by 4096"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(run.weights(), before);
  run.training.step.finish_sums();
}

// The definition is a loop on one rank that keeps gradients of losses that it does not multiply.
TEST(LossScale, LaggedGradientsAreOfTheirOwnScale) {
  const auto all = make_mpi_communicator();
  Communicator alone;
  constexpr std::int64_t kSteps = 12;
  const std::vector<std::int64_t> heavy = {1, 2, 6};
  const HeavyData data(kSteps, heavy);
  for (const std::int64_t lag : {1, 2, 3}) {
    CommonOptions lagged = scaled_options(), source = plain_options();
    lagged.update.lag = lag;
    lagged.optimizer.name = "adam";
    source.optimizer.name = "sgd";  // at a rate of 0
    Trained found(*all, lagged, data), gradient_of(alone, source, data);
    Optimizer optimizer(lagged.optimizer, found.training.step.network().parameters());
    const testing_support::DeviceArray<float> weights(found.weights());
    testing_support::DeviceState device_state;
    Context context;
    context.step = device_state.data();
    StepState state;
    state.learning_rate = 0.01F;
    LossScaleState expected{1024, 0, 0};
    std::vector<std::vector<float>> gradients;
    std::vector<double> scales;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      scales.push_back(expected.scale);
      found.run(1);
      gradient_of.training.set_weights(weights.get());
      gradient_of.training.step.run(gradient_of.loader, 0);
      gradients.push_back(gradient_of.training.gradient());
      if (step < lag) continue;
      const std::int64_t due = step - lag;
      const double scale = scales[static_cast<std::size_t>(due)];
      if (std::ranges::binary_search(heavy, due)) {  // the second one of two neighbours is of the first one's scale
        expected.skipped += 1;
        if (scale / 2 < expected.scale) expected = {scale / 2, 0, expected.skipped};
      } else {
        state.step = due - expected.skipped;
        device_state.set(state);
        const testing_support::DeviceArray<float> used(gradients[static_cast<std::size_t>(due)]);
        optimizer.step(context, 0, found.training.step.network().parameter_elements(), used.data(), weights.data());
        if (scale == expected.scale && ++expected.steps == 3) expected = {2 * scale, 0, expected.skipped};
      }
      EXPECT_EQ(found.weights(), weights.get()) << "lag " << lag << ", step " << step;
      EXPECT_EQ(found.scale().scale, expected.scale) << "lag " << lag << ", step " << step;
      EXPECT_EQ(found.scale().steps, expected.steps) << "lag " << lag << ", step " << step;
      EXPECT_EQ(found.scale().skipped, expected.skipped);
    }
    found.training.step.settle();
  }
}

TEST(LossScale, SurvivesACheckpoint) {
  const auto all = make_mpi_communicator();
  constexpr std::int64_t kSteps = 9;
  const HeavyData data(kSteps, {1, 4, 5});
  for (const std::int64_t lag : {0, 2}) {
    CommonOptions options = scaled_options();
    options.update.lag = lag;
    Trained whole(*all, options, data);
    whole.run(kSteps);
    for (std::int64_t stop = 1; stop < kSteps; ++stop) {
      Trained first(*all, options, data), second(*all, options, data);
      first.run(stop);
      first.training.step.settle();
      TrainingState state;
      state.lagged = first.training.step.lagged();
      state.loss_scale = first.scale();
      const TrainingState kept = state_from_text(to_text(state), "state");
      second.training.step.restore(stop, first.training.step.arrays(), kept.lagged, kept.loss_scale, "first.h5");
      second.training.set_weights(first.weights());
      second.loader.start_epoch(0, stop);
      second.run(kSteps - stop);
      EXPECT_EQ(second.weights(), whole.weights()) << "lag " << lag << ", stopped after " << stop;
      EXPECT_EQ(second.scale().scale, whole.scale().scale);
      EXPECT_EQ(second.scale().steps, whole.scale().steps);
      EXPECT_EQ(second.scale().skipped, whole.scale().skipped);
      second.training.step.settle();
    }
    whole.training.step.settle();
  }
}

TEST(LossScale, StaysBetweenItsEnds) {
  TrainOptions options;
  options.loss_scale = LossScale::kMost;
  options.loss_scale_steps = 1;
  LossScale scale(options, DType::kFp16);
  EXPECT_TRUE(scale.scales());
  EXPECT_TRUE(scale.use(0, LossScale::kMost, true));
  EXPECT_EQ(scale.state().scale, LossScale::kMost);
  for (double now = LossScale::kMost; now > LossScale::kLeast; now /= 2) EXPECT_FALSE(scale.use(1, now, false));
  EXPECT_EQ(scale.state().scale, LossScale::kLeast);
  EXPECT_THROW(scale.use(2, LossScale::kLeast, false), AgreedError);
  EXPECT_FALSE(LossScale(options, DType::kBf16).scales());
  options.loss_scaling = LossScaling::kNone;
  EXPECT_FALSE(LossScale(options, DType::kFp16).scales());
}

TEST(LossScale, DividesSlicesAndSeesWhatIsNotFinite) {
  LossScale scale({}, DType::kFp16);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<Slice> slices = {{1, 3}, {5, 6}};
  for (const float spoilt : {4.0F, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    const testing_support::DeviceArray<float> gradient({kInfinity, 2, -8, kInfinity, kInfinity, spoilt});
    const Context context;
    scale.divide(context, slices, 4, gradient.data());
    context.space.fence();
    EXPECT_EQ(scale.finite(), spoilt == 4.0F);
    const std::vector<float> after = gradient.get();
    EXPECT_EQ(after[1], 0.5F);
    EXPECT_EQ(after[2], -2.0F);
    EXPECT_EQ(after[3], kInfinity);
    EXPECT_TRUE(spoilt != 4.0F || after[5] == 1.0F);
  }
}

}  // namespace
}  // namespace petaflow
