#include "report/metric_json.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/html.hpp"

namespace petaflow {

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

std::string with_error(const Metric& metric, double scale) {
  if (!metric.value) return "";
  const double value = scale * *metric.value, error = scale * metric.error.value_or(0);
  if (!(error > 0)) return readable(value, 4);
  const int decimals = std::clamp(1 - static_cast<int>(std::floor(std::log10(error))), 0, 9);
  return grouped(value, decimals) + " ± " + grouped(error, decimals);
}

void to_json(nlohmann::json& json, const ClassificationReport& report) {
  json = {{"signal_events", report.signal_events}, {"background_events", report.background_events}};
  put(json, "accuracy", report.accuracy);
  put(json, "auc", report.auc);
  json["at_background_rate"] = nlohmann::json::array();
  for (const EfficiencyAtRate& point : report.at_rates) {
    nlohmann::json entry = {{"background_rate", point.background_rate}};
    if (point.threshold && std::isfinite(*point.threshold)) entry["threshold"] = *point.threshold;
    put(entry, "signal_efficiency", point.signal_efficiency);
    json["at_background_rate"].push_back(entry);
  }
  if (report.selection) {
    nlohmann::json& entry = json["selection"];
    put(entry, "background_rate", report.selection->background_rate);
    put(entry, "signal_efficiency", report.selection->signal_efficiency);
    put(entry, "score_signal_efficiency", report.selection->score_efficiency);
    put(entry, "difference", report.selection->difference);
  }
}

namespace {

nlohmann::json methods_to_json(const std::vector<MethodScores>& methods,
                               const std::vector<EstimatedParameter>& parameters) {
  nlohmann::json list = nlohmann::json::array();
  for (const MethodScores& method : methods) {
    nlohmann::json entry = {{"method", method.method}, {"parameters", nlohmann::json::array()}};
    put(entry, "mae", method.mae);
    for (std::size_t t = 0; t < parameters.size(); ++t) {
      const ParameterScores& scores = method.parameters[t];
      nlohmann::json parameter = {{"name", parameters[t].name}, {"unit", parameters[t].unit}};
      put(parameter, "mean_relative_error", scores.mean_relative_error);
      put(parameter, "rmse", scores.rmse);
      put(parameter, "r2", scores.r2);
      if (scores.ratio) put(parameter, "ratio", *scores.ratio);
      entry["parameters"].push_back(parameter);
    }
    list.push_back(entry);
  }
  return list;
}

}  // namespace

void to_json(nlohmann::json& json, const RegressionReport& report) {
  json = {{"samples", report.samples}, {"groups", report.groups}};
  json["single"] = methods_to_json(report.single, report.parameters);
  if (!report.group_means.empty()) json["group_means"] = methods_to_json(report.group_means, report.parameters);
}

}  // namespace petaflow
