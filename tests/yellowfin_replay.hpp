// YellowFin in f64, as it is published.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>
#include <vector>

namespace petaflow::testing_support {

/// Algorithm 1 of arXiv:1706.03471 as it is written, on numbers in f64.
class YellowFinReplay {
 public:
  YellowFinReplay(std::vector<double> start, std::vector<char> trained)
      : x(std::move(start)), before_(x), mean_(x.size()), trained_(std::move(trained)) {}

  void step(const std::vector<double>& gradient, double factor, const std::vector<double>& decay) {
    t_ += 1;
    double h = 0;
    for (std::size_t i = 0; i < x.size(); ++i) h += trained_[i] ? gradient[i] * gradient[i] : 0;
    // Algorithm 2: curvature range.
    window_.push_back(h);
    if (window_.size() > 20) window_.pop_front();
    const auto [lowest, highest] = std::ranges::minmax(window_);
    const double h_min = std::exp(averaged(low_, std::log(lowest))),
                 h_max = std::exp(averaged(high_, std::log(highest)));
    // Algorithm 3: gradient variance.
    const double square = averaged(square_, h);
    double mean_square = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (trained_[i]) mean_square += std::pow(averaged(mean_[i], gradient[i]), 2);
    }
    const double variance = std::max(1e-6, square - mean_square);
    // Algorithm 4: distance to the optimum.
    const double distance = averaged(distance_, averaged(norm_, std::sqrt(h)) / square);
    // SingleStep: the root of D^2 h_min^2 / (2 C) x = (1 - x)^3 by bisection.
    double lower = 0, upper = 1;
    for (int i = 0; i < 200; ++i) {
      const double middle = (lower + upper) / 2;
      const double left = distance * distance * h_min * h_min / (2 * variance) * middle;
      (left < std::pow(1 - middle, 3) ? lower : upper) = middle;
    }
    const double range = std::sqrt(h_max / h_min);
    momentum = std::max(lower * lower, std::pow((range - 1) / (range + 1), 2));
    rate = std::pow(1 - std::sqrt(momentum), 2) / h_min * std::min(1.0, t_ / 200.0) * factor;
    const std::vector<double> now = x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (trained_[i]) x[i] += momentum * (x[i] - before_[i]) - rate * (gradient[i] + decay[i] * x[i]);
    }
    before_ = now;
  }

  std::vector<double> x;
  double momentum = 0, rate = 0;

 private:
  double averaged(double& sum, double value) const {
    sum = 0.999 * sum + 0.001 * value;
    return sum / (1 - std::pow(0.999, t_));
  }

  std::vector<double> before_, mean_;
  std::vector<char> trained_;
  double t_ = 0, low_ = 0, high_ = 0, square_ = 0, norm_ = 0, distance_ = 0;
  std::deque<double> window_;
};

}  // namespace petaflow::testing_support
