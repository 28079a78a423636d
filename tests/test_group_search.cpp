// Tuning of momentum, learning rate and number of groups: decisions alone, and trainings on virtual ranks against a
// serial replay of every trial.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "update/group_search.hpp"
#include "update/optimizer.hpp"
#include "virtual_trainer.hpp"

namespace petaflow {
namespace {

using testing_support::expect_same;
using testing_support::train_virtually;
using testing_support::VirtualRun;
using Decision = GroupSearch::Decision;

/// Mean loss of the second half of 60 updates of a quadratic from 1, by groups that take turns.
double loss_of_quadratic(const GroupTrial& trial, double rate) {
  constexpr int kSteps = 60;
  double sum = 0;
  for (const double curvature : {1.0, 0.3, 0.05}) {
    std::vector<double> x(static_cast<std::size_t>(trial.groups) + 1, 1.0);
    for (int step = 0; step < kSteps; ++step) {
      const double now = x.back(), stale = x[x.size() - static_cast<std::size_t>(trial.groups)];
      if (step >= kSteps / 2) sum += curvature * now * now / kSteps;
      x.push_back(now + trial.momentum * (now - x[x.size() - 2]) - rate * trial.rate * curvature * stale);
    }
  }
  return sum;
}

Decision search_quadratic(GroupSearch& search, double rate) {
  Decision decision = Decision::kNone;
  while (decision == Decision::kNone || decision == Decision::kFewer) {
    decision = search.take(loss_of_quadratic(search.next(), rate));
  }
  return decision;
}

TEST(GroupSearch, HalvesGroupsUntilAMomentumIsBest) {
  GroupSearch search(8, 0.9);
  EXPECT_EQ(search_quadratic(search, 0.15), Decision::kFound);
  EXPECT_EQ(search.groups(), 4);
  EXPECT_EQ(search.settings().momentum, 0.3);
  EXPECT_EQ(search.settings().rate, 1);
  EXPECT_EQ(search.tried().size(), 16U);
  // The decision again from all trials there can be.
  for (const std::int64_t groups : {8, 4}) {
    GroupTrial best{.loss = INFINITY};
    for (const double rate : GroupSearch::kRates) {
      for (const double momentum : GroupSearch::kMomenta) {
        const GroupTrial trial{groups, momentum, rate};
        if (const double loss = loss_of_quadratic(trial, 0.15); loss < best.loss) best = {groups, momentum, rate, loss};
      }
    }
    EXPECT_EQ(best.momentum == 0, groups == 8);
    if (groups == 4) {
      EXPECT_EQ(best.loss, search.settings().loss);
    }
  }
  // The next one begins with what was found; a rate that is ten times too high is divided.
  search.forget();
  EXPECT_EQ(search_quadratic(search, 1.5), Decision::kFound);
  EXPECT_EQ(search.groups(), 4);
  EXPECT_EQ(search.settings().rate, 0.1);
}

TEST(GroupSearch, OneGroupGoesOnWithoutMomentum) {
  GroupSearch search(1, 0.9);
  for (int trial = 0; trial + 1 < GroupSearch::kTrials; ++trial) EXPECT_EQ(search.take(1 + trial), Decision::kNone);
  EXPECT_EQ(search.take(100), Decision::kFound);
  EXPECT_EQ(search.settings().momentum, 0);
}

TEST(GroupSearch, TakesFailuresForTheWorstAndSaysWhereNothingElseIs) {
  GroupSearch search(2, 0.9);
  for (int trial = 0; trial < 5; ++trial) search.take(trial % 2 == 0 ? NAN : INFINITY);
  search.take(7);
  search.take(5);
  EXPECT_EQ(search.take(NAN), Decision::kFound);
  EXPECT_EQ(search.settings().loss, 5);
  EXPECT_EQ(search.settings().momentum, 0.6);
  search.forget();
  for (int trial = 0; trial < 7; ++trial) search.take(NAN);
  EXPECT_EQ(search.take(NAN), Decision::kFailed);
}

TEST(GroupSearch, DividesByTheSmallestFactor) {
  for (const auto& [groups, fewer] : {std::pair(8, 4), std::pair(9, 3), std::pair(6, 3), std::pair(7, 1)}) {
    EXPECT_EQ(GroupSearch::fewer(groups), fewer);
  }
}

TEST(GroupSearch, StandsInTheStateOfATraining) {
  TrainingState state;
  state.search.emplace(8, -1.0);
  state.search_epoch = 3;
  for (const double loss : {0.3, 1.0 / 3, static_cast<double>(INFINITY), 0.1}) state.search->take(loss);
  const TrainingState read = state_from_text(to_text(state), "the checkpoint");
  EXPECT_EQ(to_text(read), to_text(state));
  EXPECT_EQ(read.search_epoch, 3);
  GroupSearch here = *state.search, there = read.search.value();
  EXPECT_EQ(search_quadratic(here, 0.15), search_quadratic(there, 0.15));
  EXPECT_EQ(here.settings().momentum, there.settings().momentum);
  EXPECT_EQ(here.groups(), there.groups());
}

/// 12 steps of 8 samples per group and epoch, of 91 samples.
CommonOptions options_of(int groups, double rate) {
  CommonOptions options;
  options.train.batch = 8 * groups;
  options.train.shards = 8;
  options.train.deterministic = true;
  options.train.seed = 5;
  options.train.steps = 12;
  options.optimizer.name = "sgd";
  options.optimizer.lr = rate;
  options.update.groups = groups;
  options.update.servers = 2;
  options.update.tune_groups = 12;
  options.update.tune_epochs = 1;
  options.checkpoint.interval = 1000;
  options.log.interval = 1;
  return options;
}

constexpr double kHighRate = 0.6;

struct Replay {
  double loss = 0;  // as loss_of_quadratic()
  std::vector<float> weights;
};

/// Steps of the first epoch by groups in turn: a gradient is of the weights that the group got last.
Replay replay(const CommonOptions& options, const GroupTrial& trial) {
  Communicator alone;
  CommonOptions of_group = options;
  of_group.train.batch /= options.update.groups;
  of_group.update = {};
  tiny::Training source(alone, of_group, 91, 0.5F, true);
  Optimizer optimizer(options.optimizer, source.step.network().parameters());
  optimizer.set_momentum(trial.momentum);
  const std::vector<float> start = source.weights();
  const testing_support::DeviceArray<float> weights(start);
  testing_support::DeviceState device_state;
  Context context;
  context.step = device_state.data();
  std::vector<std::vector<float>> groups(static_cast<std::size_t>(trial.groups), start);
  Replay result;
  const std::int64_t steps = options.update.tune_groups, first = steps / 2;
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<float>& group = groups[static_cast<std::size_t>(step % trial.groups)];
    source.loader.start_epoch(0, step);
    source.set_weights(group);
    const double loss = source.step.run(source.loader, 0).loss.value();
    if (step >= first) result.loss += loss / static_cast<double>(steps - first);
    StepState state;
    state.step = step;
    state.learning_rate = static_cast<float>(options.optimizer.lr) * static_cast<float>(trial.rate);
    device_state.set(state);
    const testing_support::DeviceArray<float> gradient(source.gradient());
    optimizer.step(context, 0, std::ssize(start), gradient.data(), weights.data());
    group = weights.get();
  }
  result.weights = weights.get();
  return result;
}

TEST(TunedGroups, TrialsAndDecisionsAreThoseOfASerialReplay) {
  const CommonOptions options = options_of(4, kHighRate);
  const VirtualRun run = train_virtually(options, 8);
  GroupSearch search(4, options.optimizer.momentum);
  Decision decision = Decision::kNone;
  Replay found;
  for (std::size_t i = 0; decision != Decision::kFound; ++i) {
    ASSERT_LT(i, run.kept.tunings.size());
    const TuningLine& line = run.kept.tunings[i];
    const GroupTrial trial = search.next();
    EXPECT_EQ(line.groups, trial.groups);
    EXPECT_EQ(line.momentum, trial.momentum);
    const Replay again = replay(options, trial);
    EXPECT_NEAR(line.loss, again.loss, 1e-12) << i;
    decision = search.take(again.loss);
  }
  EXPECT_LT(search.groups(), 4);
  EXPECT_GT(search.settings().momentum, 0);
  EXPECT_EQ(run.fit.groups, search.groups());
  EXPECT_EQ(std::ranges::count(run.kept.tunings, true, &TuningLine::chosen), 1);
  // The run itself is the best trial again, from the same weights.
  EXPECT_EQ(run.weights, replay(options, search.settings()).weights);
  EXPECT_EQ(run.kept.lines.size(), 12U);  // of trials there is none
  EXPECT_EQ(run.fit.rates.steps, 12);
}

TEST(TunedGroups, GoOnFromEveryCheckpoint) {
  CommonOptions options = options_of(4, kHighRate);
  options.train.steps = 40;
  options.update.tune_groups = 6;
  options.checkpoint.interval = 5;
  const VirtualRun whole = train_virtually(options, 4);
  const auto& saved = whole.kept.saved;
  std::vector<std::int64_t> searches;
  for (const TuningLine& line : whole.kept.tunings) {
    if (line.chosen) searches.push_back(line.step);
  }
  EXPECT_EQ(searches, (std::vector<std::int64_t>{1, 13, 25}));  // of the fourth epoch there are too few steps
  EXPECT_LT(whole.fit.groups, 4);
  for (std::size_t i = 0; i + 1 < saved.size(); ++i) {
    SCOPED_TRACE(saved[i].first);
    const VirtualRun rest = train_virtually(options, i % 2 == 0 ? 8 : 4, &saved[i].second);
    expect_same(rest.kept.saved.back().second, saved.back().second);
    EXPECT_EQ(rest.fit.groups, whole.fit.groups);
  }
}

TEST(TunedGroups, ATrialThatFailsIsTheWorst) {
  // From some rate on numbers are beyond f32: not yet at a tenth of the first such one.
  const auto failed = [](const TuningLine& line) { return std::isinf(line.loss); };
  bool found = false;
  for (double rate = 1e14; rate < 1e30 && !found; rate *= 10) {
    const VirtualRun run = train_virtually(options_of(2, rate), 2);
    found = std::ranges::any_of(run.kept.tunings, failed);
    for (const TuningLine& line : run.kept.tunings) EXPECT_FALSE(line.chosen && failed(line)) << rate;
    EXPECT_EQ(run.fit.steps, 12);
  }
  EXPECT_TRUE(found);
}

TEST(TunedGroups, WhereAllTrialsFailTheRunDoes) {
  try {
    train_virtually(options_of(2, 2e21), 2);
    ADD_FAILURE() << "it trained";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailure);
    EXPECT_NE(std::string(error.what()).find("the loss is"), std::string::npos) << error.what();
  }
}

TEST(TunedGroups, BadDataEndTheRun) {
  const tiny::BadData bad(91);
  try {
    train_virtually(options_of(2, 0.1), 4, nullptr, &bad);
    ADD_FAILURE() << "it trained";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sample 17 is broken"), std::string::npos) << error.what();
  }
}

TEST(TunedGroups, WantTrialsWithinAnEpoch) {
  CommonOptions options = options_of(2, 0.1);
  options.update.tune_groups = 13;
  EXPECT_THROW(train_virtually(options, 2), Error);
}

}  // namespace
}  // namespace petaflow
