#include "cosmoflow/evaluator.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/ranges.h>

#include "cosmoflow/baselines.hpp"
#include "program/open_data.hpp"

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

CosmoflowEvaluator::CosmoflowEvaluator(Task& task, const CosmoData& data, const Options& options, Depth depth)
    : task_(task),
      data_(data),
      options_(options),
      depth_(depth),
      estimates_(std::ssize(options.data.parameters)),
      labels_(std::ssize(options.data.parameters)) {
  set_.parameters = estimated_parameters(options);
  set_.group = data.universes();
}

void CosmoflowEvaluator::add(const PredictedBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    estimates_.add(batch.indices[i], batch.outputs.front().value(i));
    labels_.add(batch.indices[i], batch.targets.front().of<float>(i));
  }
}

void CosmoflowEvaluator::merge(Communicator& comm) {
  set_.methods = {{"network", estimates_.merge(comm)}};
  set_.target = labels_.merge(comm);
}

void CosmoflowEvaluator::add_baselines(Communicator& comm, const std::vector<std::string>& training_files) {
  const std::int64_t samples = options_.evaluate.baseline_samples;
  if (samples == 0) return;
  const auto train = open_data(comm, task_, training_files, "data.train", DataRole::kTrain);
  std::ranges::move(classical_estimates(comm, dynamic_cast<const CosmoData&>(*train), data_, samples),
                    std::back_inserter(set_.methods));
}

Evaluation CosmoflowEvaluator::evaluate() {
  RegressionOptions how;
  how.replicas = depth_ == Depth::kFull ? static_cast<int>(options_.evaluate.replicas) : 0;
  how.group_name = "universe";
  report_ = evaluate_regression(set_, how);

  const MethodScores& network = report_.single.front();
  const std::vector<std::string> names = metric_names(options_);
  Evaluation evaluation;
  constexpr std::size_t kMain = 3;  // with the errors of two parameters a line has 85 characters
  evaluation.main.assign(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMain, names.size())));
  evaluation.add(names[0], network.mae, false);
  for (std::size_t i = 0; i < network.parameters.size(); ++i) {
    evaluation.add(names[i + 1], network.parameters[i].mean_relative_error, false);
  }
  return evaluation;
}

PredictionRows prediction_rows(const Options& options, const PredictedBatch& batch) {
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
  const std::vector<float>& estimates = batch.outputs.front().values;
  const auto labels = batch.targets.front().all<float>();
  return {{{"estimate", physical(estimates), width},
           {"estimate_normalised", estimates, width},
           {"true", physical({labels.begin(), labels.end()}), width}},
          {{"parameters", fmt::format("{}", fmt::join(names, "\n"))},
           {"units", fmt::format("{}", fmt::join(units, "\n"))}}};
}

}  // namespace petaflow::cosmoflow
