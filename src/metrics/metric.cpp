#include "metrics/metric.hpp"

#include <cmath>

#include <fmt/format.h>

namespace petaflow {

Metric bootstrap_metric(double value, const std::vector<double>& replicas, const std::string& reason) {
  if (!std::isfinite(value)) return {{}, {}, reason};
  double n = 0, mean = 0, squares = 0;  // Welford
  for (const double x : replicas) {
    if (!std::isfinite(x)) continue;
    n += 1;
    const double step = x - mean;
    mean += step / n;
    squares += step * (x - mean);
  }
  return {value, n > 1 ? std::optional(std::sqrt(squares / (n - 1))) : std::nullopt, ""};
}

std::string to_string(const Metric& metric, int digits) {
  if (!metric.value) return "none: " + metric.reason;
  return metric.error ? fmt::format("{:.{}f} +- {:.{}f}", *metric.value, digits, *metric.error, digits)
                      : fmt::format("{:.{}f}", *metric.value, digits);
}

}  // namespace petaflow
