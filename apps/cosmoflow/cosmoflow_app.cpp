#include "cosmoflow/cosmoflow_app.hpp"

#include <nlohmann/json.hpp>

#include "cosmoflow/baselines.hpp"
#include "data/bytes.hpp"
#include "data/files.hpp"
#include "nn/layers/counts.hpp"
#include "train/agree.hpp"

namespace petaflow::cosmoflow {

std::string CosmoflowApplication::description() const {
  return "Reads cosmological parameters off the distribution of dark matter (Mathuriya et al., SC18; MLPerf HPC)";
}

Shape CosmoflowApplication::sample_shape() const {
  const CosmoDataOptions& cubes = options_.data.cubes;
  return {1, cubes.channels, cubes.edge, cubes.edge, cubes.edge};
}

Graph CosmoflowApplication::model(const Shape& sample) const {
  if (options_.data.parameters.empty()) user_error("data.parameters is empty: nothing is to be predicted");
  check(options_.generator.ranges);
  Graph graph(sample, DType::kI16);
  graph.add<Counts>("counts", options_.data.scale == "mean" ? CountScale::kMean : CountScale::kLog1p);
  add_network(graph, options_.model, std::ssize(options_.data.parameters));
  return graph;
}

std::unique_ptr<Loss> CosmoflowApplication::loss() const {
  return std::make_unique<RegressionLoss>(options_.loss == "mse" ? RegressionError::kSquared
                                                                 : RegressionError::kAbsolute);
}

CosmoDataOptions CosmoflowApplication::data_options(DataRole role) const {
  CosmoDataOptions options = options_.data.cubes;
  options.parameters = label_positions(options_);
  options.labels_optional = role == DataRole::kPredict;
  return options;
}

std::string CosmoflowApplication::scan(const std::vector<std::string>& files, const std::string& what,
                                       DataRole role) const {
  CosmoIndex index = scan_cosmo(data_options(role), expand_files(files, what));
  return to_bytes(index);
}

std::unique_ptr<Dataset> CosmoflowApplication::open(const std::string& found, const std::string& /*what*/,
                                                    DataRole role) const {
  return std::make_unique<CosmoData>(data_options(role), from_bytes<CosmoIndex>(found));
}

std::function<void(std::span<std::byte>, RandomSequence&)> CosmoflowApplication::augmentation(
    const Dataset& train) const {
  if (!options_.symmetries) return {};
  return CubeSymmetry(train.sample_dims());
}

std::vector<EstimatedParameter> CosmoflowApplication::parameters() const {
  std::vector<EstimatedParameter> parameters;
  for (const std::int64_t position : label_positions(options_)) {
    const auto i = static_cast<std::size_t>(position);
    const double low = options_.generator.ranges.low(i), high = options_.generator.ranges.high(i);
    parameters.push_back({kParameterNames[i], (low + high) / 2, (high - low) / 2});
  }
  return parameters;
}

std::vector<std::string> CosmoflowApplication::metrics() const {
  std::vector<std::string> names = {"mae"};
  for (const std::string& parameter : options_.data.parameters) names.push_back("error_" + parameter);
  return names;
}

Evaluation CosmoflowApplication::evaluate(const CommonOptions& common, const Dataset& data,
                                          const Predictions& predictions, Depth depth) const {
  const auto& cubes = dynamic_cast<const CosmoData&>(data);
  const bool full = depth == Depth::kFull;
  RegressionSet set{parameters(), predictions.targets, cubes.universes(), {{"network", predictions.outputs}}};
  if (full && options_.evaluate.baseline_samples > 0) {
    const CosmoDataOptions options = data_options(DataRole::kTrain);
    const CosmoData train(options, scan_cosmo(options, expand_files(common.data.train, "data.train")));
    std::ranges::move(classical_estimates(train, cubes, options_.evaluate.baseline_samples),
                      std::back_inserter(set.methods));
  }
  RegressionOptions options;
  options.replicas = full ? static_cast<int>(options_.evaluate.replicas) : 0;
  options.group_name = "universes";
  const RegressionReport report = judge_regression(set, options);

  const MethodScores& network = report.single.front();
  Evaluation evaluation;
  evaluation.metrics = {{"mae", network.mae.value.value_or(NAN), false}};
  for (std::size_t i = 0; i < network.parameters.size(); ++i) {
    const Metric& error = network.parameters[i].mean_relative_error;
    evaluation.metrics.push_back({metrics()[i + 1], error.value.value_or(NAN), false});
  }
  evaluation.table = regression_table(report);
  evaluation.json = nlohmann::json(report).dump();
  return evaluation;
}

std::string CosmoflowApplication::curves(const Dataset& data, const Predictions& predictions) const {
  return report_curves(parameters(), dynamic_cast<const CosmoData&>(data), predictions).dump();
}

PredictionRows CosmoflowApplication::rows(const Dataset& data, const Predictions& predictions) const {
  const auto& cubes = dynamic_cast<const CosmoData&>(data);
  const std::vector<EstimatedParameter> of = parameters();
  const auto physical = [&](std::vector<float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const EstimatedParameter& parameter = of[i % of.size()];
      values[i] = static_cast<float>(parameter.mean + parameter.half_range * static_cast<double>(values[i]));
    }
    return values;
  };
  std::vector<std::int32_t> file;
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    file.push_back(static_cast<std::int32_t>(i / cubes.cubes_per_file()));
    index.push_back(i % cubes.cubes_per_file());
  }
  const auto width = std::ssize(of);
  return {{{"estimate", physical(predictions.outputs), width},
           {"estimate_normalised", predictions.outputs, width},
           {"true", physical(predictions.targets), width},
           {"file", file},
           {"index", index}},
          cubes.files(),
          {{"parameters", fmt::format("{}", fmt::join(options_.data.parameters, "\n"))}}};
}

void CosmoflowApplication::generate(const CommonOptions& /*options*/, Communicator& comm, bool overwrite) const {
  agree(comm, [&] {
    if (comm.rank() == 0) prepare_folders(options_.generator, overwrite);
  });
  agree(comm, [&] { write_universes(options_.generator, comm.rank(), comm.size()); });
}

}  // namespace petaflow::cosmoflow
