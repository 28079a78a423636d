// Every optimizer on the gradients of a training, which are recorded, against its formulas in f64.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "op_support.hpp"
#include "optimizer_replay.hpp"
#include "tiny_training.hpp"

namespace petaflow {
namespace {

using testing_support::doubles;
using testing_support::largest_error;

/// Trains with an optimizer and replays the gradients that its updates used, which a second training finds at the same
/// weights: convolutions, dense layers, batch norms with running statistics, biases, and a rate that falls.  Some
/// tensors must be held back by larc and some not.
void expect_replayed(const OptimizerOptions& optimizer) {
  SCOPED_TRACE(fmt::format("{}{} larc {} form {} clip {} decay {}", optimizer.name,
                           optimizer.nesterov ? " (Nesterov)" : "", optimizer.larc,
                           static_cast<int>(optimizer.larc_form), optimizer.clip_norm, optimizer.weight_decay));
  constexpr std::int64_t kSteps = 12;
  CommonOptions options;
  options.optimizer = optimizer;
  options.train.batch = 16;
  options.train.seed = 5;
  Communicator alone;
  tiny::Training training(alone, options, 91, 0.3F, false, BatchNormScope::kMicroBatch);
  options.optimizer = {};
  options.optimizer.name = "sgd";  // at a rate of 0
  tiny::Training source(alone, options, 91, 0.3F, false, BatchNormScope::kMicroBatch);
  testing_support::OptimizerReplay replay(optimizer, training.step.network().parameters(), training.weights());
  for (std::int64_t step = 0; step < kSteps; ++step) {
    for (tiny::Training* each : {&training, &source}) {
      if (step % each->loader.steps_per_epoch() == 0) each->loader.start_epoch(step);
    }
    const float rate = 0.02F / static_cast<float>(1 + step / 4);
    source.set_weights(training.weights());
    source.step.run(source.loader, 0);
    training.step.run(training.loader, rate);
    replay.step(static_cast<double>(rate), source.gradient());
  }
  EXPECT_LE(largest_error(doubles(training.weights()), replay.w, 1), 1e-6);
  if (optimizer.larc == 0) return;
  EXPECT_GT(replay.clipped_by_larc, 0);
  EXPECT_GT(replay.let_through, 0);
}

TEST(Rules, FollowTheirFormulasOnRecordedGradients) {
  for (const char* name : {"adam", "adamw", "lamb", "sgd"}) {
    for (const double decay : {0.0, 0.1}) {
      for (const double clip : {0.0, 0.3}) {
        OptimizerOptions options;
        options.name = name;
        options.weight_decay = decay;
        options.clip_norm = clip;
        options.epsilon = 1e-4;  // else what f32 rounds off in g + decay w decides on signs
        expect_replayed(options);
        options.momentum = 0;
        if (options.name == "sgd") expect_replayed(options);
      }
    }
  }
}

TEST(Rules, ScopesAreOfWeightsAndOfBiasesAndBatchNorm) {
  for (const char* name : {"adamw", "lamb", "sgd"}) {
    OptimizerOptions options;
    options.name = name;
    options.weight_decay = 0.1;
    options.epsilon = 1e-4;
    options.decay_scope = ArrayScope::kAll;
    expect_replayed(options);
    options.decay_scope = ArrayScope::kWeights;
    options.trust_scope = ArrayScope::kWeights;
    options.larc = options.name == "lamb" ? 0 : 0.001;
    expect_replayed(options);
  }
}

TEST(Rules, NesterovFollowsItsFormulaOnRecordedGradients) {
  OptimizerOptions options;
  options.name = "sgd";
  options.nesterov = true;
  options.weight_decay = 0.1;
  expect_replayed(options);
  options.larc = 0.02;
  expect_replayed(options);
}

TEST(Rules, FormsOfLarcFollowTheirFormulasOnRecordedGradients) {
  for (const TrustForm form : {TrustForm::kLarc, TrustForm::kLars, TrustForm::kCosmoFlow, TrustForm::kSc18}) {
    for (const char* name : {"sgd", "adam"}) {
      OptimizerOptions options;
      options.name = name;
      options.larc_form = form;
      options.larc = form == TrustForm::kLarc ? 0.02 : 0.3;
      options.weight_decay = 0.1;
      options.epsilon = 1e-4;  // else what f32 rounds off in g + decay w decides on signs
      expect_replayed(options);
    }
  }
}

}  // namespace
}  // namespace petaflow
