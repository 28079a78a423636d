// A number that judges predictions, with its bootstrap error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace petaflow {

/// A number with its standard deviation over bootstrap replicas.
struct Metric {
  std::optional<double> value;
  std::optional<double> error;  // none without replicas
  std::string reason;           // why there is no value
};

/// The value, with its error over the replicas in which it is finite; no value, but the reason, where it is not finite.
Metric bootstrap_metric(double value, const std::vector<double>& replicas, const std::string& reason);

/// json["auc"], json["auc_error"]: numbers or null; json["auc_reason"] where there is no value.
void put(nlohmann::json& json, const std::string& name, const Metric& metric);

/// What put() has written; without a value where there is none of that name.
Metric metric_at(const nlohmann::json& json, const std::string& name);

/// "0.9930 +- 0.0012"; "none: no signal events".
std::string to_string(const Metric& metric, int digits);

/// For reports, "0.9930 ± 0.0012": the error to two digits and the value as far, both times `scale`; without an error
/// the value to four.  Empty where there is no value.
std::string with_error(const Metric& metric, double scale = 1);

}  // namespace petaflow
