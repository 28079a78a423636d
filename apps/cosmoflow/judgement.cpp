#include "cosmoflow/judgement.hpp"

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

namespace petaflow::cosmoflow {
std::vector<EstimatedParameter> estimated_parameters(const Options& options) {
  const ParameterRanges& ranges = options.generator.ranges;
  std::vector<EstimatedParameter> parameters;
  for (const std::int64_t position : label_positions(options)) {
    const auto i = static_cast<std::size_t>(position);
    parameters.push_back({kParameterNames[i], ranges.middle(i), ranges.half_width(i), kParameterUnits[i]});
  }
  return parameters;
}

std::vector<std::string> metric_names(const Options& options) {
  std::vector<std::string> names = {"mae"};
  for (const std::string& parameter : options.data.parameters) names.push_back("error_" + parameter);
  return names;
}

Evaluation judge(const Options& options, const CosmoData& data, const Predictions& predictions,
                 const std::vector<Estimates>& others, Depth depth) {
  const bool full = depth == Depth::kFull;
  RegressionSet set{estimated_parameters(options), predictions.targets, data.universes(), {}};
  set.methods.push_back({"network", predictions.outputs});
  std::ranges::copy(others, std::back_inserter(set.methods));
  RegressionOptions how;
  how.replicas = full ? static_cast<int>(options.evaluate.replicas) : 0;
  how.group_name = "universe";
  const RegressionReport report = judge_regression(set, how);

  const MethodScores& network = report.single.front();
  const std::vector<std::string> names = metric_names(options);
  Evaluation evaluation;
  evaluation.add(names[0], network.mae, false);
  for (std::size_t i = 0; i < network.parameters.size(); ++i) {
    evaluation.add(names[i + 1], network.parameters[i].mean_relative_error, false);
  }
  evaluation.table = regression_table(report);
  evaluation.json = nlohmann::json(report).dump();
  return evaluation;
}

PredictionRows prediction_rows(const Options& options, const Predictions& predictions) {
  const std::vector<EstimatedParameter> parameters = estimated_parameters(options);
  const auto physical = [&](std::vector<float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(parameters[i % parameters.size()].physical(static_cast<double>(values[i])));
    }
    return values;
  };
  std::vector<std::string> names, units;
  for (const EstimatedParameter& parameter : parameters) {
    names.push_back(parameter.name);
    units.push_back(parameter.unit);
  }
  const auto width = std::ssize(parameters);
  return {{{"estimate", physical(predictions.outputs), width},
           {"estimate_normalised", predictions.outputs, width},
           {"true", physical(predictions.targets), width}},
          {{"parameters", fmt::format("{}", fmt::join(names, "\n"))},
           {"units", fmt::format("{}", fmt::join(units, "\n"))}}};
}

}  // namespace petaflow::cosmoflow
