// YellowFin against its published algorithm in f64, on the gradients of a training and on problems with known answers.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "op_support.hpp"
#include "tiny_training.hpp"
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
    EXPECT_LE(largest_error(doubles(training.weights()), published.x, 1), 5e-6) << "clip " << clip;
    EXPECT_GT(published.momentum, 0);
  }
}

}  // namespace
}  // namespace petaflow
