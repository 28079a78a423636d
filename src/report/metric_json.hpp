// Metrics as the JSON files of a run and as its report have them.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "metrics/classification.hpp"
#include "metrics/metric.hpp"
#include "metrics/regression.hpp"

namespace petaflow {

/// json["auc"], json["auc_error"]: numbers or null; json["auc_reason"] where there is no value.
void put(nlohmann::json& json, const std::string& name, const Metric& metric);

/// The metric that put() has written; without a value where there is none of that name.
Metric metric_at(const nlohmann::json& json, const std::string& name);

/// {"auc": 0.99, "auc_error": 0.001, ..., "at_background_rate": [{"background_rate": 0.01, "signal_efficiency": 0.9,
/// "signal_efficiency_error": 0.01, "threshold": 0.7}], "selection": {...}}; what has no value is null, with the reason
/// in "<name>_reason".
void to_json(nlohmann::json& json, const ClassificationReport& report);

/// {"samples": 1200, "groups": 150, "single": [{"method": "network", "mae": 0.1, "mae_error": 0.01, "parameters":
/// [{"name": "H_0", "unit": "km/s/Mpc", "mean_relative_error": 0.02, ..., "rmse": ..., "r2": ..., "ratio": ...}]}],
/// "group_means":
/// [...]}
void to_json(nlohmann::json& json, const RegressionReport& report);

/// For reports, "0.9930 ± 0.0012": the error to two digits and the value as far, both times `scale`; without an error
/// the value to four.  Empty where there is no value.
std::string with_error(const Metric& metric, double scale = 1);

}  // namespace petaflow
