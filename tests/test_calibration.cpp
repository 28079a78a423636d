// Confusion matrix and calibration against events counted by hand.
#include "metrics/calibration.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace petaflow {
namespace {

float log_odds(double probability) { return static_cast<float>(std::log(probability / (1 - probability))); }

TEST(Calibration, ConfusionMatrixCountsWeights) {
  const ScoredSet set{{-1, 0, 2, -3, 1}, {1, 1, 0, 0, 0}, {}};
  EXPECT_EQ(confusion_matrix(set, 0), (ConfusionMatrix{{{1, 2}, {1, 1}}}));  // the threshold itself is called signal
  EXPECT_EQ(confusion_matrix(set, 0.5), (ConfusionMatrix{{{1, 2}, {2, 0}}}));
  const ScoredSet weighted{set.score, set.label, {1, 2, 4, 8, 16}};
  EXPECT_EQ(confusion_matrix(weighted, 0), (ConfusionMatrix{{{8, 20}, {1, 2}}}));
}

TEST(Calibration, IsTheDistanceOfProbabilityAndShare) {
  // Two events near 0.2 of which one is signal, four near 0.9 of which three are.
  const ScoredSet set{{log_odds(0.22), log_odds(0.26), log_odds(0.91), log_odds(0.93), log_odds(0.95), log_odds(0.97)},
                      {1, 0, 1, 1, 0, 1},
                      {}};
  const Calibration found = calibration(set);
  ASSERT_EQ(found.bins.size(), 2U);
  EXPECT_EQ(found.bins[0].weight, 2);
  EXPECT_NEAR(found.bins[0].probability, 0.24, 1e-6);
  EXPECT_NEAR(found.bins[0].signal_share, 0.5, 1e-12);
  EXPECT_NEAR(found.bins[1].probability, 0.94, 1e-6);
  EXPECT_NEAR(found.bins[1].signal_share, 0.75, 1e-12);
  EXPECT_NEAR(found.error, (2 * 0.26 + 4 * 0.19) / 6, 1e-6);
  // A weight counts as so many events.
  const ScoredSet weighted{set.score, set.label, {1, 1, 1, 1, 4, 1}};
  EXPECT_NEAR(calibration(weighted).bins[1].signal_share, 3.0 / 7, 1e-12);
}

TEST(Calibration, HoldsAtTheEnds) {
  const ScoredSet sure{{-1000, 1000}, {0, 1}, {}};
  EXPECT_EQ(calibration(sure).error, 0);
  EXPECT_EQ(calibration(sure).bins.size(), 2U);
  EXPECT_TRUE(std::isnan(calibration({}).error));
}

}  // namespace
}  // namespace petaflow
