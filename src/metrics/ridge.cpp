// Everything follows from products of (1, standardised features, targets), summed over the samples of each fold.
#include "metrics/ridge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace petaflow {
namespace {

constexpr std::size_t kFolds = 5;  // of the cross-validation that chooses among the penalties

// A square matrix by rows.
struct Matrix {
  std::size_t n;
  std::vector<double> values = std::vector<double>(n * n, 0.0);

  double* row(std::size_t i) { return &values[i * n]; }
  const double* row(std::size_t i) const { return &values[i * n]; }
};

// a = L L^T in its lower triangle.
void factorise(Matrix& a) {
  for (std::size_t i = 0; i < a.n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a.row(i)[j];
      for (std::size_t k = 0; k < j; ++k) sum -= a.row(i)[k] * a.row(j)[k];
      if (i == j && !(sum > 0)) user_error("the normal equations of a ridge regression are singular in feature {}", i);
      a.row(i)[j] = i == j ? std::sqrt(sum) : sum / a.row(j)[j];
    }
  }
}

// x = (L L^T)^-1 x.
void solve(const Matrix& l, double* x) {
  for (std::size_t i = 0; i < l.n; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= l.row(i)[k] * x[k];
    x[i] /= l.row(i)[i];
  }
  for (std::size_t i = l.n; i-- > 0;) {
    x[i] /= l.row(i)[i];
    for (std::size_t k = 0; k < i; ++k) x[k] -= l.row(i)[k] * x[i];
  }
}

// Sums of products of (1, F features, T targets): which row is what.
struct Layout {
  std::size_t features, targets;
  std::size_t size() const { return 1 + features + targets; }
  std::size_t feature(std::size_t f) const { return 1 + f; }
  std::size_t target(std::size_t t) const { return 1 + features + t; }
};

struct Fit {
  std::vector<double> coefficient, intercept;  // (T, F), (T)
};

Fit fit(const Matrix& sums, const Layout& layout, double penalty) {
  const double n = sums.row(0)[0];
  const auto mean = [&](std::size_t i) { return sums.row(0)[i] / n; };
  const auto covariance = [&](std::size_t i, std::size_t j) { return sums.row(i)[j] / n - mean(i) * mean(j); };
  Matrix a{layout.features};
  for (std::size_t i = 0; i < a.n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) a.row(i)[j] = covariance(layout.feature(i), layout.feature(j));
    a.row(i)[i] += penalty;
  }
  factorise(a);
  Fit result;
  for (std::size_t t = 0; t < layout.targets; ++t) {
    std::vector<double> b;
    for (std::size_t f = 0; f < a.n; ++f) b.push_back(covariance(layout.feature(f), layout.target(t)));
    solve(a, b.data());
    double intercept = mean(layout.target(t));
    for (std::size_t f = 0; f < a.n; ++f) intercept -= b[f] * mean(layout.feature(f));
    result.coefficient.insert(result.coefficient.end(), b.begin(), b.end());
    result.intercept.push_back(intercept);
  }
  return result;
}

// Sum of (y - c - b x)^2 over the samples that `sums` are of.
double squared_error(const Matrix& sums, const Layout& layout, const Fit& fit, std::size_t t) {
  std::vector<double> v(layout.size(), 0.0);  // the error is v . (1, x, y)
  v[0] = -fit.intercept[t];
  for (std::size_t f = 0; f < layout.features; ++f) v[layout.feature(f)] = -fit.coefficient[t * layout.features + f];
  v[layout.target(t)] = 1;
  double error = 0;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    for (std::size_t j = 0; j < layout.size(); ++j) error += v[i] * v[j] * sums.row(i)[j];
  }
  return error;
}

// The fold (N) that leaves each sample out.
std::vector<std::size_t> folds_of(std::span<const std::int64_t> group) {
  std::vector<std::int64_t> distinct(group.begin(), group.end());
  std::ranges::sort(distinct);
  distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
  if (distinct.size() < 2)
    user_error("ridge regression needs samples of at least two groups, found {}", distinct.size());
  std::vector<std::size_t> result;
  for (const std::int64_t g : group)
    result.push_back(static_cast<std::size_t>(std::ranges::lower_bound(distinct, g) - distinct.begin()) % kFolds);
  return result;
}

// Means and standard deviations of the columns of (N, F) features.
void standardise(std::span<const double> features, std::size_t samples, RidgeModel& model) {
  const std::size_t width = features.size() / samples;
  for (std::size_t f = 0; f < width; ++f) {
    double mean = 0, variance = 0;
    for (std::size_t n = 0; n < samples; ++n) {
      const double x = features[n * width + f];
      if (!std::isfinite(x)) user_error("feature {} of sample {} of a ridge regression is {}", f, n, x);
      mean += x / static_cast<double>(samples);
    }
    for (std::size_t n = 0; n < samples; ++n) {
      const double step = features[n * width + f] - mean;
      variance += step * step / static_cast<double>(samples);
    }
    const double deviation = std::sqrt(variance);
    model.mean.push_back(mean);
    model.deviation.push_back(deviation > 1e-12 * std::abs(mean) ? deviation : 1);
  }
}

// Sums of products over the samples of each fold, with standardised features.
std::vector<Matrix> sums_of_folds(std::span<const double> features, std::span<const float> targets,
                                  const std::vector<std::size_t>& fold, const Layout& layout, const RidgeModel& model) {
  std::vector<Matrix> sums(kFolds, Matrix{layout.size()});
  std::vector<double> z(layout.size(), 1.0);
  for (std::size_t n = 0; n < fold.size(); ++n) {
    for (std::size_t f = 0; f < layout.features; ++f)
      z[layout.feature(f)] = (features[n * layout.features + f] - model.mean[f]) / model.deviation[f];
    for (std::size_t t = 0; t < layout.targets; ++t) {
      const auto y = static_cast<double>(targets[n * layout.targets + t]);
      if (!std::isfinite(y)) user_error("target {} of sample {} of a ridge regression is {}", t, n, y);
      z[layout.target(t)] = y;
    }
    for (std::size_t i = 0; i < z.size(); ++i) {
      for (std::size_t j = 0; j < z.size(); ++j) sums[fold[n]].row(i)[j] += z[i] * z[j];
    }
  }
  return sums;
}

// Penalty of each target with the least squared error over the folds, each by a fit to the others.
std::vector<double> best_penalties(const std::vector<Matrix>& folds, const Matrix& total, const Layout& layout,
                                   const std::vector<double>& penalties) {
  std::vector<double> best(layout.targets), least(layout.targets, std::numeric_limits<double>::infinity());
  for (const double penalty : penalties) {
    std::vector<double> error(layout.targets, 0.0);
    for (const Matrix& sums : folds) {
      if (sums.row(0)[0] == 0) continue;  // fewer groups than folds
      Matrix rest = total;
      for (std::size_t i = 0; i < rest.values.size(); ++i) rest.values[i] -= sums.values[i];
      const Fit of_rest = fit(rest, layout, penalty);
      for (std::size_t t = 0; t < layout.targets; ++t) error[t] += squared_error(sums, layout, of_rest, t);
    }
    for (std::size_t t = 0; t < layout.targets; ++t) {
      if (!(error[t] < least[t])) continue;
      least[t] = error[t];
      best[t] = penalty;
    }
  }
  return best;
}

}  // namespace

std::vector<double> RidgeOptions::default_penalties() {
  std::vector<double> penalties;
  for (int half_decade = -16; half_decade <= 4; ++half_decade) penalties.push_back(std::pow(10.0, half_decade / 2.0));
  return penalties;
}

std::vector<float> RidgeModel::predict(std::span<const double> features) const {
  const std::size_t width = mean.size(), samples = features.size() / std::max<std::size_t>(1, width);
  PETAFLOW_REQUIRE(width > 0 && features.size() == samples * width, "{} numbers for {} features", features.size(),
                   width);
  std::vector<float> result;
  for (std::size_t n = 0; n < samples; ++n) {
    for (std::size_t t = 0; t < intercept.size(); ++t) {
      double y = intercept[t];
      for (std::size_t f = 0; f < width; ++f)
        y += coefficient[t * width + f] * (features[n * width + f] - mean[f]) / deviation[f];
      result.push_back(static_cast<float>(y));
    }
  }
  return result;
}

RidgeModel fit_ridge(std::span<const double> features, std::span<const float> targets,
                     std::span<const std::int64_t> group, const RidgeOptions& options) {
  const std::size_t samples = group.size();
  PETAFLOW_REQUIRE(samples > 0 && !features.empty() && !targets.empty() && features.size() % samples == 0 &&
                       targets.size() % samples == 0 && !options.penalties.empty(),
                   "{} features and {} targets of {} samples, {} penalties", features.size(), targets.size(), samples,
                   options.penalties.size());
  const Layout layout{features.size() / samples, targets.size() / samples};
  RidgeModel model;
  standardise(features, samples, model);
  const std::vector<Matrix> folds = sums_of_folds(features, targets, folds_of(group), layout, model);
  Matrix total{layout.size()};
  for (const Matrix& sums : folds) {
    for (std::size_t i = 0; i < total.values.size(); ++i) total.values[i] += sums.values[i];
  }
  model.penalty = best_penalties(folds, total, layout, options.penalties);
  for (std::size_t t = 0; t < layout.targets; ++t) {
    const Fit best = fit(total, layout, model.penalty[t]);
    const auto row = best.coefficient.begin() + static_cast<std::ptrdiff_t>(t * layout.features);
    model.coefficient.insert(model.coefficient.end(), row, row + static_cast<std::ptrdiff_t>(layout.features));
    model.intercept.push_back(best.intercept[t]);
  }
  return model;
}

}  // namespace petaflow
