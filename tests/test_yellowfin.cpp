// YellowFin against its published algorithm in f64, on the gradients of a training and on problems with known answers.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "op_support.hpp"
#include "tiny_training.hpp"
#include "virtual_trainer.hpp"
#include "yellowfin_replay.hpp"

namespace petaflow {
namespace {

using testing_support::doubles;
using testing_support::largest_error;

TEST(YellowFin, FollowsThePublishedAlgorithmOnRecordedGradients) {
  for (const double clip : {0.0, 0.2}) {
    CommonOptions options;
    options.optimizer.name = "yellowfin";
    options.optimizer.clip_norm = clip;
    options.optimizer.weight_decay = 0.1;
    options.train.batch = 16;
    options.train.seed = 5;
    Communicator alone;
    tiny::Training training(alone, options, 91, 0.3F, false);
    const std::vector<Parameter>& parameters = training.step.network().parameters();
    std::vector<char> trained;
    std::vector<double> decay;
    for (const Parameter& p : parameters) {
      trained.insert(trained.end(), static_cast<std::size_t>(p.spec.elements()), p.spec.trained() ? 1 : 0);
      decay.insert(decay.end(), static_cast<std::size_t>(p.spec.elements()), p.spec.decays ? 0.1 : 0);
    }
    testing_support::YellowFinReplay published(doubles(training.weights()), trained);
    for (std::int64_t step = 0; step < 60; ++step) {
      if (step % training.loader.steps_per_epoch() == 0) training.loader.start_epoch(step);
      training.step.run(training.loader, 0.5F);
      std::vector<double> gradient = doubles(training.gradient());
      double norm = 0;
      for (const double g : gradient) norm += g * g;
      const double factor = clip > 0 && std::sqrt(norm) > clip ? clip / std::sqrt(norm) : 1;
      for (double& g : gradient) g *= factor;
      published.step(gradient, 0.5, decay);
    }
    EXPECT_LE(largest_error(doubles(training.weights()), published.x, 1), 1e-6) << "clip " << clip;
    EXPECT_GT(published.momentum, 0);
  }
}

struct Scheme {
  const char* name;
  UpdateOptions update;
  int ranks;
};

CommonOptions options_of(const Scheme& scheme) {
  CommonOptions options;
  options.optimizer.name = "yellowfin";
  options.optimizer.lr = 0.5;
  options.train.batch = 24;
  options.train.seed = 5;
  options.train.steps = 36;
  options.comm.fixed_order = true;
  options.log.interval = 1000;
  options.update = scheme.update;
  options.update.order = UpdateOrder::kTicket;
  return options;
}

TEST(YellowFin, GoesOnFromEveryCheckpointOfEveryScheme) {
  for (const Scheme& scheme :
       std::vector<Scheme>{{"synchronous", {}, 2},
                           {"lag", {.lag = 2}, 2},
                           {"sharded", {.sharded = true}, 3},
                           {"sharded with lag", {.lag = 1, .sharded = true}, 2},
                           {"one group with servers", {.groups = 1, .servers = 2}, 3},
                           {"hybrid", {.groups = 3, .servers = 2}, 6},
                           {"asynchronous", {.groups = 4, .servers = 1}, 4},
                           {"averages", {.groups = 2, .average_every = 2}, 4},
                           {"late averages", {.groups = 2, .average_every = 2, .average_late = 1}, 2}}) {
    for (const std::int64_t interval : {1, 8}) {  // of settling, too: in between gradients are of older weights
      CommonOptions options = options_of(scheme);
      options.checkpoint.interval = interval;
      const auto whole = testing_support::train_virtually(options, scheme.ranks).kept.saved;
      ASSERT_GT(whole.size(), 3U);
      for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
        SCOPED_TRACE(fmt::format("{}, from step {} of checkpoints every {}", scheme.name, whole[i].first, interval));
        const auto rest = testing_support::train_virtually(options, scheme.ranks, &whole[i].second).kept.saved;
        testing_support::expect_same(rest.back().second, whole.back().second);
      }
    }
  }
}

TEST(YellowFin, OnServersKeepsTheNumbersOfEveryLayerOnAnyRanks) {
  CommonOptions options = options_of({"hybrid", {.groups = 3, .servers = 2}, 6});
  options.checkpoint.interval = 8;
  const auto whole = testing_support::train_virtually(options, 6).kept.saved;
  const auto& arrays = whole.back().second.training_arrays;
  const auto tuner = std::ranges::find(arrays, "optimizer/tuner", &NamedArray::name);
  ASSERT_NE(tuner, arrays.end());
  EXPECT_EQ(tuner->dims, (std::vector<std::int64_t>{3, YellowFin::kNumbers}));
  for (std::size_t layer = 1; layer <= 3; ++layer) {  // the momentum that the loop of each has come to
    EXPECT_NE(tuner->values.at(layer * YellowFin::kNumbers - 1), 0) << layer;
  }
  options.train.deterministic = true;
  const auto expected = testing_support::train_virtually(options, 6).kept.saved;
  options.update.servers = 1;
  testing_support::expect_same(
      testing_support::train_virtually(options, 3, &expected[1].second).kept.saved.back().second,
      expected.back().second);
  // Numbers of layers are none of the whole gradient.
  options.update = {};
  options.train.batch = 8;
  EXPECT_THROW(testing_support::train_virtually(options, 2, &expected[1].second), Error);
}

}  // namespace
}  // namespace petaflow
