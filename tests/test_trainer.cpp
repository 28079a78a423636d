// The trainer and its parts on one rank: schedules, shares of a batch, checks of options, checkpoints, how runs end.
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/element.hpp"
#include "run/checkpoint_folder.hpp"
#include "scratch_folder.hpp"
#include "tiny_application.hpp"
#include "tiny_training.hpp"
#include "train/batch_share.hpp"
#include "train/schedule.hpp"
#include "train/trainer.hpp"

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
  options.train.batch_epochs = {3, 3};
  EXPECT_NE(message(options, 1).find("train.batch_epochs must rise, found [3, 3]"), std::string::npos);
  options = {};
  options.optimizer.larc_form = TrustForm::kSc18;
  options.optimizer.larc = 0.002;
  EXPECT_EQ(message(options, 1), "");
  options.train.deterministic = true;
  EXPECT_NE(message(options, 1).find("depends on the number of ranks"), std::string::npos);
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
  options.precision = "fp16";
  EXPECT_EQ(message(options, 1).empty(), kTakesFp16);
  EXPECT_EQ(message(options, 1).find("is for GPUs, and this program is for processors") == std::string::npos,
            kTakesFp16);
  options.precision = "bf16";
  options.train.loss_scaling = LossScaling::kDynamic;
  EXPECT_EQ(message(options, 1), "");
  options.update.groups = 2;
  options.update.servers = 1;
  EXPECT_NE(message(options, 3).find("train.loss_scaling: losses are multiplied where all ranks add"),
            std::string::npos);
  options = {};
  options.update.sharded = true;
  options.comm.reduction = "ring";
  EXPECT_NE(message(options, 1).find("set comm.reduction to \"auto\", \"halving\" or \"tree\""), std::string::npos);
}

TEST(IdleOptions, AreRefusedInOneWay) {
  const auto message = [](std::vector<std::string> overrides) {
    CommonOptions options;
    Schema schema;
    declare(schema, options);
    schema.load("", overrides);
    try {
      EXPECT_TRUE(schema.drop_idle().empty());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using Overrides = std::vector<std::string>;
  const std::vector<std::pair<std::string, Overrides>> idle_unless = {
      {"train.shards=2", {"train.deterministic=true"}},
      {"train.validate_epochs=2", {"data.validation=a.h5"}},
      {"train.batch_factor=3", {"train.batch_epochs=[2]"}},
      {"train.loss_scale=8", {"train.loss_scaling=static"}},
      {"train.loss_scale=8", {"precision=fp16"}},
      {"train.loss_scale_steps=8", {"train.loss_scaling=dynamic"}},
      {"optimizer.momentum=0.5", {"optimizer.name=sgd"}},
      {"optimizer.nesterov=true", {"optimizer.name=sgd"}},
      {"optimizer.larc_form=sc18", {"optimizer.larc=0.002"}},
      {"optimizer.trust_scope=weights", {"optimizer.larc=0.002"}},
      {"optimizer.trust_scope=weights", {"optimizer.name=lamb"}},
      {"schedule.end_factor=0.5", {"schedule.name=cosine"}},
      {"stop.target=0.9", {"data.validation=a.h5"}},
      {"stop.patience=3", {"data.validation=a.h5"}},
      {"stop.keep_best=true", {"data.validation=a.h5"}},
      {"stop.metric=auc", {"stop.target=0.9", "data.validation=a.h5"}},
      {"update.order=ticket", {"update.servers=1"}},
      {"update.cut_layers=true", {"update.servers=1"}},
      {"update.max_staleness=2", {"update.servers=1", "update.groups=2"}},
      {"update.average_every=4", {"update.groups=2"}},
      {"update.average_late=1", {"update.average_every=4", "update.groups=2"}},
      {"update.average_warmup_epochs=1", {"update.average_every=4", "update.groups=2"}},
      {"update.average_cooldown_epochs=1", {"update.average_every=4", "update.groups=2"}},
      {"inject.jitter=0.5", {"inject.latency_ms=1"}},
      {"inject.seed=2", {"inject.drop=0.1"}}};
  for (auto [option, users] : idle_unless) {
    const std::string refusal = message({option});
    EXPECT_HOLDS(refusal, option.substr(0, option.find('=')) + " = ");
    EXPECT_HOLDS(refusal, " does nothing while ");
    users.push_back(option);
    EXPECT_EQ(message(users), "") << option;
  }
  EXPECT_HOLDS(message({"update.max_staleness=2", "update.servers=1"}), "while update.groups is 1; set update.groups");
  EXPECT_HOLDS(message({"train.loss_scale=8", "precision=fp16", "train.loss_scaling=none"}),
               "while train.loss_scaling is \"none\"");
  EXPECT_HOLDS(message({"stop.target=0.9", "data.validation=a.h5", "train.validate_epochs=0"}),
               "while train.validate_epochs is 0");
  // Values that do nothing, given explicitly.
  for (const char* neutral : {"train.shards=1",
                              "train.shards=4",
                              "train.validate_epochs=0",
                              "optimizer.momentum=0",
                              "optimizer.nesterov=false",
                              "optimizer.larc_form=larc",
                              "optimizer.trust_scope=all",
                              "schedule.end_factor=0",
                              "schedule.end_factor=1",
                              "schedule.step_factor=1",
                              "schedule.step_epochs=[]",
                              "stop.target=0",
                              "stop.metric=",
                              "update.order=arrival",
                              "update.cut_layers=false",
                              "update.max_staleness=0",
                              "update.average_every=0",
                              "update.average_late=0",
                              "inject.jitter=0",
                              "inject.slow_rank=-1",
                              "inject.slow_factor=1"}) {
    EXPECT_EQ(message({neutral}), "") << neutral;
  }
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
  EXPECT_HOLDS(test::error_of([&] { run.fit(); }),
               "validation after step 4: skill is nan; a smaller optimizer.lr or a warm-up");
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

}  // namespace
}  // namespace petaflow
