// A number that says how good predictions are, with its bootstrap error.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace petaflow {

/// A number with its standard deviation over bootstrap replicas.
struct Metric {
  std::optional<double> value;
  std::optional<double> error;  // none without replicas
  std::string reason;           // why there is no value
};

/// The value, with its error over the replicas in which it is finite; no value, but the reason, where it is not finite.
Metric bootstrap_metric(double value, const std::vector<double>& replicas, const std::string& reason);

/// "0.9930 +- 0.0012"; "none: no signal events".
std::string to_string(const Metric& metric, int digits);

}  // namespace petaflow
