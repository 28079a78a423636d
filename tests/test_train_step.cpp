// Single steps of training on one rank: losses, gradients and running statistics, checkpoints and averages of weights.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <numbers>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "comm/communicator.hpp"
#include "io/checkpoint.hpp"
#include "read_sample.hpp"
#include "scratch_folder.hpp"
#include "tiny_training.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

/// The gradient of one step over `count` samples without shuffling, in slots of a batch.
std::vector<float> first_gradient(std::int64_t batch, std::int64_t count, bool deterministic, double* loss) {
  Communicator comm;
  CommonOptions options;
  options.train.batch = batch;
  options.train.deterministic = deterministic;
  options.data.shuffle = false;
  tiny::Training training(comm, options, count, 0.3F, false);
  *loss = training.run(1)[0];
  return training.gradient();
}

TEST(TrainStep, PaddedSlotsCountForNothing) {
  double exact_loss = 0, padded_loss = 0, sharded_loss = 0;
  const std::vector<float> exact = first_gradient(5, 5, false, &exact_loss);
  const std::vector<float> padded = first_gradient(8, 5, false, &padded_loss);
  const std::vector<float> sharded = first_gradient(16, 5, true, &sharded_loss);  // two shards without any sample
  EXPECT_NEAR(padded_loss, exact_loss, 1e-6);
  EXPECT_NEAR(sharded_loss, exact_loss, 1e-6);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(padded[i], exact[i], 1e-6);
    EXPECT_NEAR(sharded[i], exact[i], 1e-6);
  }
}

TEST(TrainStep, LossIsTheWeightedMean) {
  // With weights zero the softmax is even: every sample's loss is log 2.
  Communicator comm;
  CommonOptions options;
  options.train.batch = 6;
  options.data.shuffle = false;
  tiny::Training training(comm, options, 6, 0, false);
  training.set_weights(std::vector<float>(training.weights().size(), 0.0F));
  double expected = 0;
  std::vector<float> pixels(static_cast<std::size_t>(tiny::kSample.sample_size()));
  for (std::int64_t i = 0; i < 6; ++i)
    expected += test::read_f32(training.data, i, pixels).weight * std::numbers::ln2 / 6;
  EXPECT_NEAR(training.run(1)[0], expected, 1e-6);
}

TEST(TrainStep, Learns) {
  Communicator comm;
  CommonOptions options;
  options.train.batch = 16;
  tiny::Training training(comm, options, 64, 0, false);
  const std::vector<double> losses = training.run(120);
  EXPECT_LT(losses.back(), 0.5 * losses.front());
  EXPECT_GT(training.step.times().total(), 0);
}

// The cubes, labels and first weights of tests/golden/make_training_golden.py.
float golden_value(std::int64_t i, double factor) {
  const double value = static_cast<double>(i) * factor;
  return static_cast<float>(2 * (value - std::floor(value)) - 1);
}

class GoldenCubes final : public Dataset {
 public:
  std::int64_t size() const override { return 40; }
  std::array<std::int64_t, 4> sample_dims() const override { return {1, 6, 6, 6}; }
  std::vector<TargetSpec> targets() const override { return {TargetSpec::label("class", 2)}; }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    const auto pixels = numbers<float>(sample.input);
    const auto count = static_cast<std::int64_t>(pixels.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = golden_value(index * count + i, 0.7548776662466927);
      pixels[static_cast<std::size_t>(i)] = index % 2 == 0 ? value : value * value * value;
    }
    sample.target<std::int32_t>(0).front() = static_cast<std::int32_t>(index % 2);
    return 1;
  }
};

TEST(TrainStep, FollowsPyTorchWithBatchNorm) {
  std::ifstream file("tests/golden/training.json");
  const auto golden = nlohmann::json::parse(file);
  ConvOptions conv;
  conv.filters = 6;
  conv.kernel = {3, 3, 3};
  conv.pad = {1, 1, 1};
  conv.bias = false;
  const Extent two{2, 2, 2};
  Graph graph(Shape{1, 1, 6, 6, 6});
  graph.add<Conv>("conv1", conv).add<BatchNorm>("norm1").add<Relu>("relu1", 0.1F);
  graph.add<Pool>("pool1", PoolGeometry{PoolKind::kMax, two, two, {0, 0, 0}});
  conv.filters = 5;
  graph.add<Conv>("conv2", conv).add<BatchNorm>("norm2").add<Relu>("relu2", 0.1F);
  graph.add<GlobalPool>("pool2", PoolKind::kAverage).add<Dense>("fc", 2);
  for (const std::string name : {"adam", "adamw", "sgd", "larc"}) {
    CommonOptions options;
    options.optimizer.name = name == "larc" ? "sgd" : name;
    options.optimizer.weight_decay = 0.1;
    options.optimizer.larc = name == "larc" ? 0.01 : 0;
    Communicator comm;
    const Objective loss("class", std::make_shared<SoftmaxLoss>());
    TrainStep step(comm, Context(), step_options(options), graph, loss);
    Network& network = step.network();
    std::vector<float> weights = testing_support::to_host<float>(network.weights(), network.parameter_elements());
    int index = 0;
    for (const Parameter& p : network.parameters()) {
      if (!p.spec.trained()) continue;
      for (std::int64_t i = 0; i < p.spec.elements(); ++i) {
        weights[static_cast<std::size_t>(p.offset + i)] = 0.5F * golden_value(i, 0.6180339887498949 + 0.01 * index);
      }
      ++index;
    }
    testing_support::to_device(weights, network.weights());
    network.refresh(Context());
    const GoldenCubes data;
    LoaderOptions loader_options;
    loader_options.global_batch = loader_options.end = options.train.batch;
    loader_options.shuffle = false;
    Loader loader(data, loader_options);
    const auto& expected = golden["norm_" + name];
    for (std::size_t s = 0; s < expected["losses"].size(); ++s) {
      if (s % 5 == 0) loader.start_epoch(static_cast<std::int64_t>(s) / 5);
      const double found = step.run(loader, name[0] == 'a' ? 0.01F : 0.05F).loss.value(),
                   wanted = expected["losses"][s];
      EXPECT_NEAR(found, wanted, 1e-4 * wanted) << name << " step " << s;
    }
    for (const NamedArray& array : weights_of(network)) {
      if (!array.name.starts_with("norm2/running_")) continue;
      const auto& values = expected[array.name.substr(6)];
      for (std::size_t i = 0; i < array.values.size(); ++i) {
        EXPECT_NEAR(static_cast<double>(array.values[i]), values[i].get<double>(), 2e-4) << name << " " << array.name;
      }
    }
  }
}

TEST(TrainStep, CheckpointsKeepRunningStatistics) {
  Communicator comm;
  CommonOptions options;
  options.train.batch = 16;
  options.train.deterministic = true;
  const auto make = [&] {
    return std::make_unique<tiny::Training>(comm, options, 64, 0.3F, true, BatchNormScope::kMicroBatch);
  };
  const auto whole = make(), first = make(), second = make();
  const std::vector<double> losses = whole->run(8);
  first->run(4);  // an epoch

  const test::ScratchFolder folder;
  Checkpoint checkpoint;
  checkpoint.weights = weights_of(first->step.network());
  checkpoint.training_arrays = first->step.arrays();
  save_checkpoint(folder / "first.h5", checkpoint);
  checkpoint = load_checkpoint(folder / "first.h5");
  const auto holds = [](const std::vector<NamedArray>& arrays, const std::string& name) {
    return std::ranges::any_of(arrays, [&](const NamedArray& array) { return array.name == name; });
  };
  EXPECT_TRUE(holds(checkpoint.weights, "norm1/running_mean"));
  EXPECT_TRUE(holds(checkpoint.weights, "norm2/running_var"));
  EXPECT_TRUE(holds(checkpoint.training_arrays, "optimizer/exp_avg/norm2/weight"));
  EXPECT_FALSE(holds(checkpoint.training_arrays, "optimizer/exp_avg/norm2/running_var"));

  second->step.restore(4, checkpoint.training_arrays, {}, {}, "first.h5");
  set_weights(second->step.network(), Context(), checkpoint.weights, "first.h5");
  second->loader.start_epoch(1);
  for (std::size_t step = 4; step < 8; ++step) EXPECT_EQ(second->step.run(second->loader, 0.01F).loss, losses[step]);
  EXPECT_EQ(second->weights(), whole->weights());
}

TEST(TrainStep, AveragesWeightsAndGoesOnWithTheAverage) {
  Communicator comm;
  CommonOptions options;
  options.train.batch = 16;
  options.train.deterministic = true;
  options.optimizer.ema = 0.6;
  const auto make = [&] {
    return std::make_unique<tiny::Training>(comm, options, 64, 0.3F, true, BatchNormScope::kMicroBatch);
  };
  const auto whole = make(), rest = make();
  EXPECT_FALSE(whole->step.averages());
  std::vector<double> expected(whole->weights().size());
  const auto run = [&](tiny::Training& training, int first, int last) {
    for (int step = first; step < last; ++step) {
      if (step % 4 == 0) training.loader.start_epoch(step / 4);
      training.step.run(training.loader, 0.01F);
      if (&training != whole.get()) continue;
      const std::vector<float> weights = training.weights();
      const double kept = std::min(0.6, step / (step + 9.0));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = kept * expected[i] + (1 - kept) * static_cast<double>(weights[i]);
      }
    }
  };
  run(*whole, 0, 20);
  const std::vector<NamedArray> weights = weights_of(whole->step.network()), arrays = whole->step.arrays();
  const std::vector<float> before = whole->weights();
  whole->step.swap_average();
  const std::vector<float> average = whole->weights();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(average[i], expected[i], 1e-6);
  EXPECT_NE(average, before);
  whole->step.swap_average();
  EXPECT_EQ(whole->weights(), before);

  rest->step.restore(20, arrays, {}, {}, "a checkpoint");
  set_weights(rest->step.network(), Context(), weights, "a checkpoint");
  run(*whole, 20, 25);
  run(*rest, 20, 25);
  EXPECT_EQ(rest->weights(), whole->weights());
  const std::vector<NamedArray> averages = whole->step.averaged_weights(), theirs = rest->step.averaged_weights();
  for (std::size_t i = 0; i < averages.size(); ++i) EXPECT_EQ(theirs[i].values, averages[i].values);
}

}  // namespace
}  // namespace petaflow
