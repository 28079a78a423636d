// Scores of estimates against cases counted by hand and the formulas of their errors.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/random.hpp"
#include "metrics/regression.hpp"
#include "report/metric_json.hpp"

namespace petaflow {
namespace {

RegressionOptions no_bootstrap() {
  RegressionOptions options;
  options.replicas = 0;
  return options;
}

// Two parameters, a = 10 + 2 u and b = 4 - v; four samples of groups 7 and 3.
RegressionSet by_hand() {
  RegressionSet set;
  set.parameters = {{"a", 10, 2}, {"b", 4, -1}};
  set.target = {0, 1, 0, 1, 1, -1, 1, -1};  // a = 10, 10, 12, 12; b = 3, 3, 5, 5
  set.group = {7, 7, 3, 3};
  set.methods = {{"network", {0.5F, 1, -0.5F, 0, 1, -1, 2, -3}}, constant_estimates("prior", {0.5, 0}, 4)};
  return set;
}

TEST(Regression, CountedByHand) {
  const RegressionReport report = evaluate_regression(by_hand(), no_bootstrap());
  EXPECT_EQ(report.samples, 4);
  EXPECT_EQ(report.groups, 2);
  ASSERT_EQ(report.single.size(), 2U);
  const MethodScores& network = report.single[0];
  EXPECT_EQ(network.method, "network");
  EXPECT_DOUBLE_EQ(*network.mae.value, (0.5 + 0.5 + 0 + 1 + 0 + 1 + 0 + 2) / 8);
  const ParameterScores &a = network.parameters[0], &b = network.parameters[1];
  EXPECT_DOUBLE_EQ(*a.mean_relative_error.value, (1 / 10.0 + 1 / 10.0 + 0 + 2 / 12.0) / 4);
  EXPECT_DOUBLE_EQ(*b.mean_relative_error.value, (0 + 1 / 3.0 + 0 + 2 / 5.0) / 4);
  EXPECT_DOUBLE_EQ(*a.rmse.value, std::sqrt((1 + 1 + 4) / 4.0));
  EXPECT_DOUBLE_EQ(*b.rmse.value, std::sqrt((1 + 4) / 4.0));
  EXPECT_DOUBLE_EQ(*a.r2.value, 1 - 6 / 4.0);
  EXPECT_DOUBLE_EQ(*b.r2.value, 1 - 5 / 4.0);
  EXPECT_FALSE(a.mean_relative_error.error);
  EXPECT_FALSE(a.ratio);
  const ParameterScores& prior = report.single[1].parameters[0];  // a = 11 for all
  EXPECT_DOUBLE_EQ(*prior.mean_relative_error.value, (2 / 10.0 + 2 / 12.0) / 4);
  EXPECT_DOUBLE_EQ(*prior.r2.value, 0);
  EXPECT_DOUBLE_EQ(*prior.ratio->value, *a.mean_relative_error.value / *prior.mean_relative_error.value);
}

TEST(Regression, EstimatesAreAveragedOverGroups) {
  const RegressionReport report = evaluate_regression(by_hand(), no_bootstrap());
  ASSERT_EQ(report.group_means.size(), 2U);
  const MethodScores& network = report.group_means[0];  // a: u = 1.5 and 0; b: v = -2 and 0.5
  EXPECT_DOUBLE_EQ(*network.mae.value, (0.5 + 0 + 1 + 0.5) / 4);
  EXPECT_DOUBLE_EQ(*network.parameters[0].mean_relative_error.value, (1 / 12.0 + 0) / 2);
  EXPECT_DOUBLE_EQ(*network.parameters[1].mean_relative_error.value, (1 / 5.0 + 0.5 / 3) / 2);
  RegressionSet alone = by_hand();
  alone.group = {};
  const RegressionReport single = evaluate_regression(alone, no_bootstrap());
  EXPECT_EQ(single.groups, 4);
  EXPECT_TRUE(single.group_means.empty());
  EXPECT_EQ(*single.single[0].mae.value, *report.single[0].mae.value);
}

// Groups of eight equal samples: the error of the mean is that of independent groups, sqrt(8) times that of samples.
TEST(Regression, TheBootstrapDrawsGroups) {
  constexpr int kGroups = 200, kCopies = 8;
  RegressionSet set;
  set.parameters = {{"a", 0.3, 0.05}};
  set.methods = {{"network", {}}, {"half as good", {}}};
  double squares = 0, mean = 0;
  for (int g = 0; g < kGroups; ++g) {
    RandomSequence draw(random_stream(3, RandomPurpose::kGenerate), static_cast<std::uint64_t>(g));
    const double error = 0.1 * draw.normal();
    const auto target = static_cast<float>(2 * draw.uniform() - 1);
    squares += error * error / kGroups;
    mean += std::abs(error) / kGroups;
    for (int copy = 0; copy < kCopies; ++copy) {
      set.target.push_back(target);
      set.group.push_back(g);
      set.methods[0].values.push_back(target + static_cast<float>(error));
      set.methods[1].values.push_back(target - 2 * static_cast<float>(error));
    }
  }
  RegressionOptions options;
  options.replicas = 1000;
  const RegressionReport report = evaluate_regression(set, options);
  const double expected = std::sqrt((squares - mean * mean) / kGroups);
  EXPECT_NEAR(*report.single[0].mae.value, mean, 1e-6);
  EXPECT_NEAR(*report.single[0].mae.error, expected, 0.1 * expected);
  EXPECT_NEAR(*report.group_means[0].mae.error, *report.single[0].mae.error, 1e-6);
  const ParameterScores& other = report.single[1].parameters[0];
  EXPECT_NEAR(*other.ratio->value, 0.5, 1e-5);
  EXPECT_LT(*other.ratio->error, 1e-5) << "replicas are the same for all methods";
  EXPECT_GT(*other.mean_relative_error.error, 1e-4);

  EXPECT_EQ(*evaluate_regression(set, options).single[0].mae.error, *report.single[0].mae.error);
  options.seed = 1;
  EXPECT_NE(*evaluate_regression(set, options).single[0].mae.error, *report.single[0].mae.error);
}

TEST(Regression, OneGroupSaysNothingOfErrors) {
  RegressionSet set = by_hand();
  set.group.assign(set.target.size() / set.parameters.size(), 7);
  const RegressionReport report = evaluate_regression(set);
  EXPECT_TRUE(report.single[0].mae.value);
  EXPECT_FALSE(report.single[0].mae.error);
}

TEST(Regression, WhatHasNoValueHasAReason) {
  RegressionSet set;
  set.parameters = {{"a", 1, 1}};
  set.target = {-1, -1};  // the physical value 0
  set.methods = {{"network", {0, -1}}};
  const RegressionReport report = evaluate_regression(set);
  const ParameterScores& a = report.single[0].parameters[0];
  EXPECT_EQ(a.mean_relative_error.reason, "a true value is 0");
  EXPECT_EQ(a.r2.reason, "all true values are equal");
  EXPECT_DOUBLE_EQ(*a.rmse.value, std::sqrt(0.5));
  EXPECT_NE(regression_table(report).find("none: a true value is 0"), std::string::npos);
  set.target.clear(), set.methods[0].values.clear();
  EXPECT_EQ(evaluate_regression(set).single[0].mae.reason, "no samples");
}

TEST(Regression, RefusesWhatIsNotANumber) {
  const auto error = [](const RegressionSet& set) -> std::pair<ErrorKind, std::string> {
    try {
      evaluate_regression(set);
    } catch (const Error& e) {
      return {e.kind(), e.what()};
    }
    return {};
  };
  RegressionSet set = by_hand();
  set.target[5] = NAN;
  EXPECT_EQ(error(set), std::pair(ErrorKind::kUser, std::string("sample 2 has nan as its true b")));
  set = by_hand();
  set.methods[0].values[6] = INFINITY;
  EXPECT_EQ(error(set), std::pair(ErrorKind::kFailure, std::string("network estimates inf as a of sample 3")));
}

TEST(Regression, Json) {
  const nlohmann::json json = evaluate_regression(by_hand(), no_bootstrap());
  EXPECT_EQ(json["samples"], 4);
  EXPECT_EQ(json["groups"], 2);
  EXPECT_DOUBLE_EQ(json["single"][0]["mae"].get<double>(), 0.625);
  EXPECT_TRUE(json["single"][0]["mae_error"].is_null());
  const nlohmann::json& b = json["single"][0]["parameters"][1];
  EXPECT_EQ(b["name"], "b");
  EXPECT_EQ(b["unit"], "");
  EXPECT_DOUBLE_EQ(b["rmse"].get<double>(), std::sqrt(1.25));
  EXPECT_FALSE(b.contains("ratio"));
  EXPECT_TRUE(json["single"][1]["parameters"][1].contains("ratio"));
  EXPECT_DOUBLE_EQ(json["group_means"][0]["mae"].get<double>(), 0.5);
}

TEST(Regression, TableNamesUnits) {
  RegressionSet set = by_hand();
  set.parameters[0].unit = "km/s/Mpc";
  const RegressionReport report = evaluate_regression(set, no_bootstrap());
  EXPECT_NE(regression_table(report).find("RMSE, km/s/Mpc"), std::string::npos);
  EXPECT_EQ(nlohmann::json(report)["single"][0]["parameters"][0]["unit"], "km/s/Mpc");
}

TEST(Regression, Table) {
  RegressionOptions options = no_bootstrap();
  options.group_name = "universe";
  EXPECT_EQ(regression_table(evaluate_regression(by_hand(), options)), R"(  4 samples of 2 universes, one by one
             MAE of normalised values
    network  0.6250
    prior    0.7500
    a        mean relative error RMSE                    R^2
    network  9.17 %              1.22                    -0.500
    prior    9.17 %              1.00                    0.000; relative error of network: 1.000 times this
    b        mean relative error RMSE                    R^2
    network  18.33 %             1.12                    -0.250
    prior    26.67 %             1.00                    0.000; relative error of network: 0.688 times this
  means over the samples of each of 2 universes
             MAE of normalised values
    network  0.5000
    prior    0.7500
    a        mean relative error RMSE                    R^2
    network  4.17 %              0.707                   0.500
    prior    9.17 %              1.00                    0.000; relative error of network: 0.455 times this
    b        mean relative error RMSE                    R^2
    network  18.33 %             0.791                   0.375
    prior    26.67 %             1.00                    0.000; relative error of network: 0.688 times this)");
}

}  // namespace
}  // namespace petaflow
