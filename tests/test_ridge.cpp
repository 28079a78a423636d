// Ridge regression against the closed form of one feature, numpy, and what cross-validation over groups must see.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "metrics/ridge.hpp"
#include "op_support.hpp"

namespace petaflow {
namespace {

using testing_support::number;
using testing_support::numbers;

std::vector<std::int64_t> groups_of(std::int64_t samples, std::int64_t per_group) {
  std::vector<std::int64_t> group;
  for (std::int64_t n = 0; n < samples; ++n) group.push_back(1000 + 7 * (n / per_group));
  return group;
}

// y = 3 x + 2 at x = 10 and 20: b = 3 * 5 / (1 + penalty) in units of the deviation 5 around the mean 15.
TEST(Ridge, OneFeature) {
  RidgeOptions options;
  options.penalties = {0.25};
  const RidgeModel model = fit_ridge(std::vector<double>{10, 20, 10, 20}, std::vector<float>{32, 62, 32, 62},
                                     std::vector<std::int64_t>{0, 0, 1, 1}, options);
  EXPECT_NEAR(model.mean[0], 15, 1e-12);
  EXPECT_NEAR(model.deviation[0], 5, 1e-12);
  EXPECT_NEAR(model.coefficient[0], 15 / 1.25, 1e-12);
  EXPECT_NEAR(model.intercept[0], 47, 1e-12);
  const std::vector<float> y = model.predict(std::vector<double>{15, 20, 5});
  EXPECT_FLOAT_EQ(y[0], 47);
  EXPECT_FLOAT_EQ(y[1], 59);
  EXPECT_FLOAT_EQ(y[2], 23);
}

// import numpy as np  # and numbers() as tests/golden/make_cosmoflow_golden.py has it
// N, F = 60, 8
// x = numbers(N*F, 1).reshape(N, F) * 10.0**np.arange(-3, F - 3) + 5
// y = np.stack([(x[:, 2]-5)*20 + numbers(N, 2), numbers(N, 3) + 0.2*(x[:, 4]-5)/10],
// 1).astype(np.float32).astype(float) group = np.arange(N) // 4 z = (x - x.mean(0)) / x.std(0) def fit(z, y, penalty):
//     zm, ym = z.mean(0), y.mean(0)
//     b = np.linalg.solve((z-zm).T@(z-zm)/len(z) + penalty*np.eye(F), (z-zm).T@(y-ym)/len(z))
//     return b, ym - zm@b
// penalties = 10.0**(np.arange(-16, 5)/2)
// error = np.zeros((21, 2))
// for i, p in enumerate(penalties):
//     for fold in range(5):
//         out = group % 5 == fold
//         b, c = fit(z[~out], y[~out], p)
//         error[i] += ((y[out] - z[out]@b - c)**2).sum(0)
// best = penalties[error.argmin(0)]
// print(best, [fit(z, y, p)[0][:, t].tolist() for t, p in enumerate(best)])
TEST(Ridge, NumbersOfNumpy) {
  constexpr std::int64_t kSamples = 60, kFeatures = 8;
  std::vector<double> features;
  std::vector<float> targets;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    const auto noise = [&](std::uint32_t seed) {
      return static_cast<double>(number(static_cast<std::uint32_t>(n), seed));
    };
    for (std::int64_t f = 0; f < kFeatures; ++f) {
      const auto value = static_cast<double>(number(static_cast<std::uint32_t>(n * kFeatures + f), 1));
      features.push_back(value * std::pow(10.0, static_cast<double>(f) - 3) + 5);
    }
    const double* x = &features[static_cast<std::size_t>(n * kFeatures)];
    targets.push_back(static_cast<float>((x[2] - 5) * 20 + noise(2)));
    targets.push_back(static_cast<float>(noise(3) + 0.2 * (x[4] - 5) / 10));
  }
  const RidgeModel model = fit_ridge(features, targets, groups_of(kSamples, 4));
  EXPECT_NEAR(model.penalty[0], 0.01, 1e-12);
  EXPECT_NEAR(model.penalty[1], 1, 1e-12);
  const double expected[] = {-0.030074912633203495, 0.052775758589790556,  1.3531076305551017,    0.15607009845760839,
                             0.09221059533202144,   -0.037804956885579666, 0.09398439079520474,   0.0938183215729542,
                             -0.007500674402435673, 0.0666659942162114,    0.006923790353466273,  -0.04269205029351652,
                             0.12148749665815317,   0.008762363697063423,  -0.005774550182493203, -0.00545152456935928};
  ASSERT_EQ(model.coefficient.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) EXPECT_NEAR(model.coefficient[i], expected[i], 1e-9) << i;
}

// The samples of a group are copies: left out one by one they would be known by heart, and noise would look useful.
TEST(Ridge, GroupsAreLeftOutTogether) {
  constexpr std::int64_t kGroups = 20, kCopies = 5, kFeatures = 15;
  const std::vector<float> noise = numbers(kGroups * kFeatures, 4), y = numbers(kGroups, 5);
  std::vector<double> features;
  std::vector<float> targets;
  for (std::int64_t n = 0; n < kGroups * kCopies; ++n) {
    const std::int64_t group = n % kGroups;
    for (std::int64_t f = 0; f < kFeatures; ++f)
      features.push_back(static_cast<double>(noise[static_cast<std::size_t>(group * kFeatures + f)]));
    targets.push_back(y[static_cast<std::size_t>(group)]);
  }
  std::vector<std::int64_t> group, alone;
  for (std::int64_t n = 0; n < kGroups * kCopies; ++n) {
    group.push_back(n % kGroups);
    alone.push_back(n % kGroups * kCopies + n / kGroups);  // one copy in each fold
  }
  EXPECT_GT(fit_ridge(features, targets, group).penalty[0], 0.1);
  EXPECT_LT(fit_ridge(features, targets, alone).penalty[0], 0.01);
}

TEST(Ridge, ConstantFeaturesCountForNothing) {
  const std::vector<double> features = {0.1, 1, 0.1, 2, 0.1, 3, 0.1, 4, 0.1, 5, 0.1, 6};
  const RidgeModel model =
      fit_ridge(features, std::vector<float>{2, 4, 6, 8, 10, 12}, std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
  EXPECT_NEAR(model.coefficient[0], 0, 1e-12);
  EXPECT_NEAR(static_cast<double>(model.predict(std::vector<double>{7, 10})[0]), 20, 1e-4);
}

TEST(Ridge, RefusesWhatCannotBeFitted) {
  const auto message = [](const std::vector<double>& features, const std::vector<float>& targets,
                          const std::vector<std::int64_t>& group, const RidgeOptions& options = {}) -> std::string {
    try {
      fit_ridge(features, targets, group, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({1, 2, 3, NAN}, {1, 2}, {0, 1}), "feature 1 of sample 1 of a ridge regression is nan");
  EXPECT_EQ(message({1, 2, 3, 4}, {1, INFINITY}, {0, 1}), "target 0 of sample 1 of a ridge regression is inf");
  EXPECT_EQ(message({1, 2, 3, 4}, {1, 2}, {3, 3}), "ridge regression needs samples of at least two groups, found 1");
  EXPECT_EQ(message({7, 1, 7, 2}, {1, 2}, {0, 1}, {{0}}),
            "the normal equations of a ridge regression are singular in feature 0");
}

}  // namespace
}  // namespace petaflow
