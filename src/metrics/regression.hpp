// How close estimates of parameters come to the truth, with bootstrap errors: several methods side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "metrics/metric.hpp"

namespace petaflow {

/// A parameter that is estimated: physical value = mean + half_range * normalised value.
struct EstimatedParameter {
  std::string name;
  double mean = 0, half_range = 1;
  std::string unit = {};  // "km/s/Mpc"; empty: none

  double physical(double normalised) const { return mean + half_range * normalised; }
};

/// Estimates of one method for all samples.
struct Estimates {
  std::string method;         // "network"
  std::vector<float> values;  // (N, T), normalised
};

/// The same estimates for every sample; with the mean of the training targets, what is known without looking.
Estimates constant_estimates(const std::string& method, const std::vector<double>& values, std::int64_t samples);

struct RegressionSet {
  std::vector<EstimatedParameter> parameters;  // T
  std::vector<float> target;                   // (N, T), normalised
  std::vector<std::int64_t> group;             // (N), equal for samples cut from one simulation; empty: all differ
  std::vector<Estimates> methods;              // the others are compared with the first
};

struct RegressionOptions {
  int replicas = 100;
  std::uint64_t seed = 0;
  std::string group_name = "group";  // for people: "universe"
};

struct ParameterScores {
  Metric mean_relative_error;   // mean of |estimate - true| / |true| in physical values
  Metric rmse;                  // root of the mean squared error, physical
  Metric r2;                    // 1 - squared errors / squared deviations of the true values from their mean
  std::optional<Metric> ratio;  // mean relative error of the first method / of this one, replica by replica
};

struct MethodScores {
  std::string method;
  Metric mae;  // mean absolute error of normalised values over all parameters, the metric of MLPerf HPC
  std::vector<ParameterScores> parameters;
};

struct RegressionReport {
  std::int64_t samples = 0, groups = 0;
  std::string group_name;
  std::vector<EstimatedParameter> parameters;
  std::vector<MethodScores> single;       // sample by sample
  std::vector<MethodScores> group_means;  // of estimates averaged over the samples of a group; empty: groups of one
};

/// All scores.  Samples of a group are not independent: bootstrap replica r draws as many groups as there are, keyed by
/// (seed, r) alone.  Throws a failure where an estimate is not finite, a user error where a target is not.
RegressionReport evaluate_regression(const RegressionSet& set, const RegressionOptions& options = {});

/// The report as lines for people.
std::string regression_table(const RegressionReport& report);

}  // namespace petaflow
