// The trainer's parts on one rank: schedules, shares of a batch, the masked last batch, checks of options.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numbers>

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "comm/communicator.hpp"
#include "measure/binding.hpp"
#include "measure/peak.hpp"
#include "read_sample.hpp"
#include "run/checkpoint_folder.hpp"
#include "scratch_folder.hpp"
#include "tiny_application.hpp"
#include "tiny_training.hpp"
#include "train/batch_share.hpp"
#include "train/schedule.hpp"
#include "train/trainer.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

// ---- Schedules ----

/// Of ten steps each, and half as many from the epochs on at which the batch grows.
EpochPlan epochs_of_ten(const std::vector<std::int64_t>& batch_epochs = {}) {
  TrainOptions train;
  train.batch_epochs = batch_epochs;
  return {train, 10 * train.batch};
}

TEST(Schedule, FollowsItsFormulas) {
  ScheduleOptions options;
  EXPECT_FLOAT_EQ(Schedule(options, 0.5, epochs_of_ten(), 100).rate(99), 0.5F);
  options.name = "cosine";
  options.end_factor = 0.1;
  EXPECT_FLOAT_EQ(Schedule(options, 2, epochs_of_ten(), 100).rate(0), 2.0F);
  EXPECT_FLOAT_EQ(Schedule(options, 2, epochs_of_ten(), 100).rate(50), 2 * 0.55F);
  EXPECT_FLOAT_EQ(Schedule(options, 2, epochs_of_ten(), 100).rate(25),
                  static_cast<float>(2 * (0.1 + 0.9 * (1 + std::numbers::sqrt2 / 2) / 2)));
  options.name = "polynomial";
  options.power = 2;
  EXPECT_FLOAT_EQ(Schedule(options, 1, epochs_of_ten(), 100).rate(70), static_cast<float>(0.1 + 0.9 * 0.3 * 0.3));
  options.name = "step";
  options.step_epochs = {3, 6.5};
  options.step_factor = 0.5;
  const Schedule steps(options, 1, epochs_of_ten(), 100);
  EXPECT_FLOAT_EQ(steps.rate(29), 1);
  EXPECT_FLOAT_EQ(steps.rate(30), 0.5F);
  EXPECT_FLOAT_EQ(steps.rate(64), 0.5F);
  EXPECT_FLOAT_EQ(steps.rate(65), 0.25F);
}

TEST(Schedule, CountsEpochsOfFewerStepsWhereBatchesGrow) {
  ScheduleOptions options;
  options.name = "step";
  options.step_epochs = {1.5, 3};
  options.step_factor = 0.5;
  options.warmup_epochs = 1.2;  // 10 steps, then one of five
  const Schedule schedule(options, 1, epochs_of_ten({1}), 25);
  EXPECT_EQ(schedule.warmup_steps(), 11);
  EXPECT_FLOAT_EQ(schedule.rate(12), 1);
  EXPECT_FLOAT_EQ(schedule.rate(13), 0.5F);
  EXPECT_FLOAT_EQ(schedule.rate(19), 0.5F);
  EXPECT_FLOAT_EQ(schedule.rate(20), 0.25F);
}

TEST(Schedule, WarmsUpLinearlyAndBeginsAfterIt) {
  ScheduleOptions options;
  options.name = "cosine";
  options.warmup_steps = 5;
  options.warmup_epochs = 0.5;  // of 10 steps: 5 more
  const Schedule schedule(options, 1, epochs_of_ten(), 110);
  for (int step = 0; step < 10; ++step) EXPECT_FLOAT_EQ(schedule.rate(step), 0.1F * static_cast<float>(step + 1));
  EXPECT_FLOAT_EQ(schedule.rate(10), 1);
  EXPECT_FLOAT_EQ(schedule.rate(60), 0.5F);
}

// ---- Shares ----

TEST(ShareOfBatch, CoversEverySlotOnce) {
  TrainOptions options;
  for (const bool deterministic : {false, true}) {
    options.deterministic = deterministic;
    options.batch = 24;
    options.shards = 6;
    for (int ranks = 1; ranks <= 6; ++ranks) {
      std::int64_t next = 0;
      const std::int64_t micro_batch = share_of_batch(options, 0, ranks).micro_batch;
      for (int rank = 0; rank < ranks; ++rank) {
        const BatchShare share = share_of_batch(options, rank, ranks);
        EXPECT_EQ(share.begin, next);
        EXPECT_EQ(share.micro_batch, micro_batch);
        EXPECT_LE(share.end - share.begin, share.micro_batch * share.micro_batches);
        EXPECT_GT(share.end, share.begin);
        EXPECT_EQ(share.parts, deterministic ? 6 : 1);  // of losses: does not grow with the ranks
        EXPECT_LE(share.first_part + share.micro_batches, share.parts);
        next = share.end;
      }
      EXPECT_EQ(next, 24);
    }
  }
}

TEST(CheckOptions, NamesBothNumbers) {
  const auto message = [](const CommonOptions& options, int ranks) {
    try {
      check(options);
      check_ranks(options, ranks);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return std::string(error.what());
    }
    return std::string();
  };
  CommonOptions options;
  options.train.batch = 12;
  EXPECT_EQ(message(options, 12), "");
  EXPECT_NE(message(options, 13).find("train.batch is 12, but 13 ranks run"), std::string::npos);
  options.train.deterministic = true;
  options.train.shards = 4;
  EXPECT_EQ(message(options, 4), "");
  EXPECT_NE(message(options, 5).find("train.shards is 4, but 5 ranks run"), std::string::npos);
  options.train.accumulate = 2;
  EXPECT_NE(message(options, 1).find("instead of train.accumulate"), std::string::npos);
  options.train.deterministic = false;
  EXPECT_EQ(message(options, 3), "");
  EXPECT_NE(message(options, 4).find("set it to a multiple of 8"), std::string::npos);
  options.train.deterministic = true;
  options.train.accumulate = 1;
  options.train.batch = 10;
  EXPECT_NE(message(options, 1).find("a batch of 10 and 4 shards"), std::string::npos);
  options = {};
  options.stop.patience = 3;
  EXPECT_NE(message(options, 1).find("data.validation"), std::string::npos);
  options = {};
  options.train.batch_epochs = {3, 3};
  EXPECT_NE(message(options, 1).find("train.batch_epochs must rise, found [3, 3]"), std::string::npos);
  options = {};
  options.optimizer.nesterov = true;
  EXPECT_NE(message(options, 1).find("it needs optimizer.name = \"sgd\""), std::string::npos);
  options = {};
  options.optimizer.larc_form = TrustForm::kSc18;
  EXPECT_NE(message(options, 1).find("set that too"), std::string::npos);
  options.optimizer.larc = 0.002;
  EXPECT_EQ(message(options, 1), "");
  options.train.deterministic = true;
  EXPECT_NE(message(options, 1).find("depends on the number of ranks"), std::string::npos);
  options = {};
  options.optimizer.trust_scope = ArrayScope::kWeights;
  EXPECT_NE(message(options, 1).find("set optimizer.larc or"), std::string::npos);
  options.optimizer.name = "lamb";
  EXPECT_EQ(message(options, 1), "");
  options = {};
  options.optimizer.ema = 0.999;
  EXPECT_EQ(message(options, 2), "");
  options.update.servers = 1;
  EXPECT_NE(message(options, 2).find("set one of them to 0"), std::string::npos);
  options = {};
  options.optimizer.name = "yellowfin";
  EXPECT_EQ(message(options, 1), "");
  options.optimizer.larc = 0.002;
  EXPECT_NE(message(options, 1).find("set optimizer.larc to 0"), std::string::npos);
  options = {};
  options.update.sharded = true;
  options.comm.reduction = "ring";
  EXPECT_NE(message(options, 1).find("set comm.reduction to \"auto\", \"halving\" or \"tree\""), std::string::npos);
}

TEST(ScaledRate, FollowsTheBatch) {
  CommonOptions options;
  options.optimizer.lr = 0.1;
  options.train.batch = 1024;
  EXPECT_DOUBLE_EQ(scaled_rate(options), 0.1);
  options.schedule.scaling = RateScaling::kLinear;
  EXPECT_DOUBLE_EQ(scaled_rate(options), 0.4);
  options.schedule.scaling = RateScaling::kSqrt;
  EXPECT_DOUBLE_EQ(scaled_rate(options), 0.2);
  options.schedule.base_batch = 4096;
  EXPECT_DOUBLE_EQ(trainer_options(options, "loss").learning_rate, 0.05);
}

// ---- The step ----

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

  second->step.restore(4, checkpoint.training_arrays, {}, "first.h5");
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

  rest->step.restore(20, arrays, {}, "a checkpoint");
  set_weights(rest->step.network(), Context(), weights, "a checkpoint");
  run(*whole, 20, 25);
  run(*rest, 20, 25);
  EXPECT_EQ(rest->weights(), whole->weights());
  const std::vector<NamedArray> averages = whole->step.averaged_weights(), theirs = rest->step.averaged_weights();
  for (std::size_t i = 0; i < averages.size(); ++i) EXPECT_EQ(theirs[i].values, averages[i].values);
}

// ---- Binding ----

TEST(BindingTable, SpeaksOfOneHostForAllThatAreAlike) {
  std::vector<Binding> bindings;
  const auto add = [&](int host, const std::string& cores, int bound, int threads) {
    bindings.push_back(
        {static_cast<int>(bindings.size()), "n" + std::to_string(host), "cpu", cores, bound, 4, threads});
  };
  for (int host = 0; host < 1000; ++host) add(host, "0-1", 2, 2), add(host, "2-3", 2, 2);
  EXPECT_TRUE(binding_warnings(bindings).empty());
  EXPECT_HOLDS(binding_table(bindings), "n0 and 999 more like it");
  for (int host = 1000; host < 1010; ++host) add(host, "0-3", 4, 8);  // too many threads
  for (int host = 2000; host < 2007; ++host) add(host, "0", 1, 2);    // on one of the four cores
  add(3000, "0", 1, 3);
  const std::vector<std::string> warnings = binding_warnings(bindings);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_HOLDS(warnings[0], "1 rank runs 8 threads in all on n1000, which has 4 cores");
  EXPECT_HOLDS(warnings[0], "(and 9 more hosts)");
  EXPECT_HOLDS(warnings[1], "rank 2010 on n2000 has 2 threads but may use cores 0 only");
  EXPECT_HOLDS(warnings[1], "(and 7 more hosts)");
}

TEST(BindingWarnings, NameHostsWhereOtherProgramsCompute) {
  const auto warnings = [](double load, int running, std::vector<int> cores, int online) {
    std::vector<Binding> bindings;
    for (const int bound : cores) {
      bindings.push_back({static_cast<int>(bindings.size()), "n1", "cpu", "some", bound, online, bound, load, running});
    }
    return fmt::format("{}", fmt::join(binding_warnings(bindings), "; "));
  };
  EXPECT_EQ(warnings(12.3, 13, {2}, 2),
            "warning: load average 12.3 on 2 cores of n1 before the run begins; steps will be slower than on an idle "
            "machine");
  EXPECT_EQ(warnings(12.3, 1, {2}, 2), "");  // they have ended
  EXPECT_EQ(warnings(1.9, 3, {2}, 2), "");
  EXPECT_EQ(warnings(2.1, 3, {2}, 2).substr(0, 26), "warning: load average 2.1 ");
  EXPECT_EQ(warnings(4.5, 5, {2, 2}, 4), "");  // of these two are ranks
  EXPECT_NE(warnings(4.5, 6, {2, 2}, 4), "");
  EXPECT_EQ(warnings(40, 41, {8, 8}, 64), "");  // others' on other cores of a shared node
  EXPECT_NE(warnings(50, 51, {8, 8}, 64), "");

  const Binding own = own_binding(0, 1);
  double average = 0;
  ASSERT_EQ(getloadavg(&average, 1), 1);
  EXPECT_NEAR(own.load, average, 0.5);
  EXPECT_GE(own.running, 1);
}

// ---- The folder of checkpoints ----

TEST(CheckpointFolder, NeverRemovesTheNewestForADamagedOneOfALaterStep) {
  const test::ScratchFolder folder;
  Checkpoint checkpoint;
  checkpoint.weights = {{"conv1/weight", {1}, {0.5F}}};
  for (const std::int64_t step : {20, 30, 40}) save_to_folder(folder.path(), step, checkpoint, 3);
  test::write_bytes(folder / "checkpoint-0000000050.h5", "damaged: the run goes on from 40");
  const std::string path = save_to_folder(folder.path(), 41, checkpoint, 2);
  EXPECT_EQ(checkpoints_in(folder.path()),
            (std::vector<std::string>{folder / "checkpoint-0000000041.h5", folder / "checkpoint-0000000040.h5"}));
  EXPECT_EQ(load_checkpoint(folder / "checkpoint.h5").weights[0].values, checkpoint.weights[0].values);
  save_to_folder(folder.path(), 42, checkpoint, 1);
  EXPECT_EQ(checkpoints_in(folder.path()), std::vector<std::string>{folder / "checkpoint-0000000042.h5"});
}

// ---- Runs ----

TEST(Evaluate, GivesUpWhereItIsStopped) {
  tiny::Run run({0.5});
  TrainStep step(run.comm, Context(), step_options(run.options), tiny::network(0), run.loss);
  Predictor predictor(run.comm, Context(), step.network(), run.loss, run.validation, run.options.data);
  class Untouched final : public Evaluator {
    void add(const PredictedBatch&) override { ADD_FAILURE() << "a batch was predicted"; }
    void merge(Communicator&) override { ADD_FAILURE() << "half an evaluation was merged"; }
    Evaluation evaluate() override { return {}; }
  } evaluator;
  limit_wall_time(1e-9);
  EXPECT_EQ(evaluate(run.comm, predictor, run.validation.size(), evaluator).stopped, StopRequest::kWallTime);
  limit_wall_time(0);
}

TEST(Fit, RefusesAMetricThatIsNoNumber) {
  tiny::Run run({0.5, NAN});
  run.options.stop.target = 0.9;
  EXPECT_HOLDS(test::error_of([&] { run.fit(); }), "validation after step 4: skill is nan");
}

TEST(Fit, SaysWhyItEnded) {
  const auto end = [](const std::vector<double>& skills, double target, std::int64_t patience) {
    tiny::Run run(skills);
    run.options.stop.target = target;
    run.options.stop.patience = patience;
    const FitResult result = run.fit();
    EXPECT_EQ(static_cast<std::size_t>(result.steps), 2 * run.evaluations);
    return result.end;
  };
  EXPECT_EQ(end({0.5, 0.6, 0.7}, 0.9, 2), FitEnd::kLastStep);
  EXPECT_EQ(end({0.5, 0.9, 0.7}, 0.9, 2), FitEnd::kTarget);
  EXPECT_EQ(end({0.5, 0.4, 0.5, 0.6}, 0.9, 2), FitEnd::kPatience);
}

TEST(Peaks, AreThoseOfAProcessor) {
  const Peaks peaks = measure_peaks(Context());
  EXPECT_GT(peaks.f32_fma, 1);
#ifdef __AVX512BF16__
  EXPECT_GT(peaks.bf16_dot, 1);
#endif
  for (const double gflops : {peaks.f32_fma, peaks.bf16_dot, peaks.bf16_tile}) EXPECT_LT(gflops, 1e5);
  const double gbs = measure_triad_gbs(Context());
  EXPECT_GT(gbs, 0.1);
  EXPECT_LT(gbs, 1e4);
}

TEST(Peaks, OfAPrecisionIsThatOfItsFastestInstruction) {
  EXPECT_EQ((Peaks{100, 0, 0}.of("bf16")), 100);  // widened to f32
  EXPECT_EQ((Peaks{100, 200, 0}.of("bf16")), 200);
  EXPECT_EQ((Peaks{100, 50, 3000}.of("bf16")), 3000);
  EXPECT_EQ((Peaks{100, 200, 3000}.of("f32")), 100);
  EXPECT_EQ((Peaks{100, 200, 0}.describe()), "100 GFLOP/s by f32 multiply-adds, 200 by bf16 dot products");
}

}  // namespace
}  // namespace petaflow
