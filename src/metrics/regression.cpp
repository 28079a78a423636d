// All scores follow from sums over the samples of a group; a bootstrap replica adds the sums of the groups that it
// drew.
#include "metrics/regression.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/random.hpp"
#include "io/progress.hpp"

namespace petaflow {
namespace {

struct Sums {
  struct OfParameter {
    double relative = 0, squares = 0;       // of errors
    double target = 0, target_squares = 0;  // of true values, normalised
  };

  double samples = 0, absolute = 0;
  std::vector<OfParameter> parameters;

  void add(const Sums& other, double times) {
    samples += times * other.samples;
    absolute += times * other.absolute;
    for (std::size_t t = 0; t < parameters.size(); ++t) {
      parameters[t].relative += times * other.parameters[t].relative;
      parameters[t].squares += times * other.parameters[t].squares;
      parameters[t].target += times * other.parameters[t].target;
      parameters[t].target_squares += times * other.parameters[t].target_squares;
    }
  }
  double mae() const { return absolute / samples / static_cast<double>(parameters.size()); }
  double mean_relative_error(std::size_t t) const { return parameters[t].relative / samples; }
  double mean_square(std::size_t t) const { return parameters[t].squares / samples; }
  double r2(std::size_t t) const {
    const OfParameter& p = parameters[t];
    const double mean = p.target / samples, variance = p.target_squares / samples - mean * mean;
    return variance > 1e-12 * p.target_squares / samples ? 1 - mean_square(t) / variance : NAN;
  }
};

// A method's sums over all samples and over those of each replica.
struct Replicated {
  Sums full;
  std::vector<Sums> replicas;

  template <class Get>
  Metric metric(const Get& get, const char* reason) const {
    std::vector<double> values;
    for (const Sums& replica : replicas) values.push_back(get(replica));
    return bootstrap_metric(get(full), values, reason);
  }
};

// Positions (N) among the distinct groups in increasing order.
std::vector<std::size_t> group_positions(const std::vector<std::int64_t>& group) {
  std::vector<std::int64_t> distinct = group;
  std::ranges::sort(distinct);
  distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
  std::vector<std::size_t> positions;
  for (const std::int64_t g : group)
    positions.push_back(static_cast<std::size_t>(std::ranges::lower_bound(distinct, g) - distinct.begin()));
  return positions;
}

// How often each replica has each group.  Fewer groups say too little of errors: with two, half of the replicas hold
// one of them twice.
constexpr std::size_t kFewestGroups = 3;
std::vector<std::vector<double>> draw_groups(const RegressionOptions& options, std::size_t groups) {
  std::vector<std::vector<double>> draws;
  const RandomStream stream = random_stream(options.seed, RandomPurpose::kBootstrap);
  for (int r = 0; r < (groups >= kFewestGroups ? options.replicas : 0); ++r) {
    std::vector<double>& times = draws.emplace_back(groups, 0.0);
    RandomSequence draw(stream, static_cast<std::uint64_t>(r));
    for (std::size_t i = 0; i < groups; ++i) times[draw.below(static_cast<std::uint32_t>(groups))] += 1;
  }
  return draws;
}

Replicated replicate(const RegressionSet& set, const std::vector<float>& estimates,
                     const std::vector<std::size_t>& position, const std::vector<std::vector<double>>& draws,
                     std::size_t groups) {
  const std::size_t count = set.parameters.size();
  const Sums zero{0, 0, std::vector<Sums::OfParameter>(count)};
  std::vector<Sums> of_group(groups, zero);
  for (std::size_t n = 0; n < position.size(); ++n) {
    Sums& sums = of_group[position[n]];
    sums.samples += 1;
    for (std::size_t t = 0; t < count; ++t) {
      const double half_range = set.parameters[t].half_range;
      const auto truth = static_cast<double>(set.target[n * count + t]);
      const double error = static_cast<double>(estimates[n * count + t]) - truth;
      Sums::OfParameter& p = sums.parameters[t];
      sums.absolute += std::abs(error);
      p.relative += std::abs(half_range * error / set.parameters[t].physical(truth));
      p.squares += error * error;
      p.target += truth;
      p.target_squares += truth * truth;
    }
  }
  Replicated result{zero, {}};
  for (const Sums& sums : of_group) result.full.add(sums, 1);
  for (const std::vector<double>& times : draws) {
    Sums& replica = result.replicas.emplace_back(zero);
    for (std::size_t g = 0; g < groups; ++g) replica.add(of_group[g], times[g]);
  }
  return result;
}

std::vector<MethodScores> score(const RegressionSet& set, const std::vector<std::size_t>& position,
                                const std::vector<std::vector<double>>& draws, std::size_t groups) {
  std::vector<Replicated> methods;
  for (const Estimates& estimates : set.methods)
    methods.push_back(replicate(set, estimates.values, position, draws, groups));
  std::vector<MethodScores> scores;
  for (std::size_t m = 0; m < methods.size(); ++m) {
    const Replicated& method = methods[m];
    MethodScores& of = scores.emplace_back();
    of.method = set.methods[m].method;
    of.mae = method.metric([](const Sums& s) { return s.mae(); }, "no samples");
    for (std::size_t t = 0; t < set.parameters.size(); ++t) {
      const double half_range = std::abs(set.parameters[t].half_range);
      ParameterScores& p = of.parameters.emplace_back();
      p.mean_relative_error =
          method.metric([=](const Sums& s) { return s.mean_relative_error(t); }, "a true value is 0");
      p.rmse = method.metric([=](const Sums& s) { return half_range * std::sqrt(s.mean_square(t)); }, "no samples");
      p.r2 = method.metric([=](const Sums& s) { return s.r2(t); }, "all true values are equal");
      if (m == 0) continue;
      std::vector<double> ratios;
      for (std::size_t r = 0; r < draws.size(); ++r)
        ratios.push_back(methods[0].replicas[r].mean_relative_error(t) / method.replicas[r].mean_relative_error(t));
      p.ratio = bootstrap_metric(methods[0].full.mean_relative_error(t) / method.full.mean_relative_error(t), ratios,
                                 "an error is 0 or has no value");
    }
  }
  return scores;
}

// Mean of the rows (N, columns) of each group.
std::vector<float> means(const std::vector<float>& values, std::size_t columns,
                         const std::vector<std::size_t>& position, std::size_t groups) {
  std::vector<double> sum(groups * columns, 0.0), count(groups, 0.0);
  for (std::size_t n = 0; n < position.size(); ++n) {
    count[position[n]] += 1;
    for (std::size_t t = 0; t < columns; ++t)
      sum[position[n] * columns + t] += static_cast<double>(values[n * columns + t]);
  }
  std::vector<float> result;
  for (std::size_t i = 0; i < sum.size(); ++i) result.push_back(static_cast<float>(sum[i] / count[i / columns]));
  return result;
}

void check(const RegressionSet& set, std::size_t samples) {
  const std::size_t count = set.parameters.size();
  PETAFLOW_REQUIRE(count > 0 && set.target.size() == samples * count && set.group.size() == samples,
                   "{} parameters, {} targets, {} groups", count, set.target.size(), set.group.size());
  for (std::size_t i = 0; i < set.target.size(); ++i) {
    if (!std::isfinite(set.target[i]))
      user_error("sample {} has {} as its true {}", i / count, set.target[i], set.parameters[i % count].name);
  }
  for (const Estimates& estimates : set.methods) {
    PETAFLOW_REQUIRE(estimates.values.size() == set.target.size(), "{} estimates of {} for {} targets",
                     estimates.values.size(), estimates.method, set.target.size());
    for (std::size_t i = 0; i < estimates.values.size(); ++i) {
      if (!std::isfinite(estimates.values[i]))
        failure("{} estimates {} as {} of sample {}", estimates.method, estimates.values[i],
                set.parameters[i % count].name, i / count);
    }
  }
}

// "2.13 +- 0.10 %"
std::string percent(const Metric& metric) {
  if (!metric.value) return to_string(metric, 2);
  Metric scaled{100 * *metric.value, metric.error, ""};
  if (scaled.error) *scaled.error *= 100;
  return to_string(scaled, 2) + " %";
}

// Digits after the point that leave three of a number's own.
int digits_of(const Metric& metric) {
  if (!metric.value || *metric.value == 0) return 3;
  return std::max(0, 2 - static_cast<int>(std::floor(std::log10(std::abs(*metric.value)))));
}

std::string methods_table(const std::vector<MethodScores>& methods, const std::vector<EstimatedParameter>& parameters) {
  std::size_t width = 6;
  for (const MethodScores& method : methods) width = std::max(width, method.method.size());
  std::string table = fmt::format("\n    {:<{}}  MAE of normalised values", "", width);
  for (const MethodScores& method : methods)
    table += fmt::format("\n    {:<{}}  {}", method.method, width, to_string(method.mae, 4));
  for (std::size_t t = 0; t < parameters.size(); ++t) {
    const std::string &name = parameters[t].name, &unit = parameters[t].unit;
    table += fmt::format("\n    {:<{}}  {:<20}{:<24}{}", name, width, "mean relative error",
                         unit.empty() ? "RMSE" : "RMSE, " + unit, "R^2");
    for (const MethodScores& method : methods) {
      const ParameterScores& p = method.parameters[t];
      table += fmt::format("\n    {:<{}}  {:<20}{:<24}{}", method.method, width, percent(p.mean_relative_error),
                           to_string(p.rmse, digits_of(p.rmse)), to_string(p.r2, 3));
      if (p.ratio && p.ratio->value)
        table += fmt::format("; relative error of {}: {} times this", methods[0].method, to_string(*p.ratio, 3));
    }
  }
  return table;
}

}  // namespace

Estimates constant_estimates(const std::string& method, const std::vector<double>& values, std::int64_t samples) {
  Estimates estimates{method, {}};
  for (std::int64_t n = 0; n < samples; ++n)
    estimates.values.insert(estimates.values.end(), values.begin(), values.end());
  return estimates;
}

RegressionReport evaluate_regression(const RegressionSet& given, const RegressionOptions& options) {
  RegressionSet set = given;
  const std::size_t count = std::max<std::size_t>(1, set.parameters.size()), samples = set.target.size() / count;
  if (set.group.empty()) {
    set.group.resize(samples);
    std::iota(set.group.begin(), set.group.end(), 0);
  }
  check(set, samples);
  const std::vector<std::size_t> position = group_positions(set.group);
  const std::size_t groups = samples == 0 ? 0 : 1 + *std::ranges::max_element(position);
  const std::vector<std::vector<double>> draws = draw_groups(options, groups);

  RegressionReport report;
  report.samples = static_cast<std::int64_t>(samples);
  report.groups = static_cast<std::int64_t>(groups);
  report.group_name = options.group_name;
  report.parameters = set.parameters;
  report.single = score(set, position, draws, groups);
  if (groups < samples) {
    RegressionSet averaged = set;
    averaged.target = means(set.target, count, position, groups);
    for (Estimates& estimates : averaged.methods) estimates.values = means(estimates.values, count, position, groups);
    std::vector<std::size_t> own(groups);
    std::iota(own.begin(), own.end(), std::size_t{0});
    report.group_means = score(averaged, own, draws, groups);
  }
  return report;
}

std::string regression_table(const RegressionReport& report) {
  if (report.group_means.empty())
    return "  " + format_count(report.samples, "sample") + methods_table(report.single, report.parameters);
  const std::string groups = format_count(report.groups, report.group_name);
  return fmt::format("  {} of {}, one by one", format_count(report.samples, "sample"), groups) +
         methods_table(report.single, report.parameters) +
         fmt::format("\n  means over the samples of each of {}", groups) +
         methods_table(report.group_means, report.parameters);
}

}  // namespace petaflow
