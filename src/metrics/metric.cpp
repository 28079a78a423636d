#include "metrics/metric.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/html.hpp"

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

void put(nlohmann::json& json, const std::string& name, const Metric& metric) {
  json[name] = metric.value ? nlohmann::json(*metric.value) : nlohmann::json();
  json[name + "_error"] = metric.error ? nlohmann::json(*metric.error) : nlohmann::json();
  if (!metric.value) json[name + "_reason"] = metric.reason;
}

Metric metric_at(const nlohmann::json& json, const std::string& name) {
  const auto number = [&](const std::string& key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
  };
  return {number(name), number(name + "_error"), json.value(name + "_reason", "")};
}

std::string to_string(const Metric& metric, int digits) {
  if (!metric.value) return "none: " + metric.reason;
  return metric.error ? fmt::format("{:.{}f} +- {:.{}f}", *metric.value, digits, *metric.error, digits)
                      : fmt::format("{:.{}f}", *metric.value, digits);
}

std::string with_error(const Metric& metric, double scale) {
  if (!metric.value) return "";
  const double value = scale * *metric.value, error = scale * metric.error.value_or(0);
  if (!(error > 0)) return readable(value, 4);
  const int decimals = std::clamp(1 - static_cast<int>(std::floor(std::log10(error))), 0, 9);
  return grouped(value, decimals) + " ± " + grouped(error, decimals);
}

}  // namespace petaflow
