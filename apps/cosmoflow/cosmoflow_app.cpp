#include "cosmoflow/cosmoflow_app.hpp"

#include "cosmoflow/baselines.hpp"
#include "data/bytes.hpp"
#include "io/log.hpp"
#include "nn/layers/counts.hpp"
#include "train/agree.hpp"
#include "train/open_data.hpp"

namespace petaflow::cosmoflow {
namespace {

const CosmoData& as_cubes(const Dataset& data) { return dynamic_cast<const CosmoData&>(data); }

}  // namespace

std::string CosmoflowApplication::description() const {
  return "Reads cosmological parameters off the distribution of dark matter (Mathuriya et al., SC18; MLPerf HPC)";
}

Shape CosmoflowApplication::sample_shape() const {
  const CosmoDataOptions& cubes = options_.data.cubes;
  return {1, cubes.channels, cubes.edge, cubes.edge, cubes.edge};
}

Graph CosmoflowApplication::model(const Shape& sample) const {
  check(options_);
  Graph graph(sample, DType::kI16);
  graph.add<Counts>("counts", options_.data.scale == "mean" ? CountScale::kMean : CountScale::kLog1p);
  add_network(graph, options_.model, std::ssize(options_.data.parameters));
  return graph;
}

std::unique_ptr<Loss> CosmoflowApplication::loss() const {
  return std::make_unique<RegressionLoss>(options_.loss == "mse" ? RegressionError::kSquared
                                                                 : RegressionError::kAbsolute);
}

std::string CosmoflowApplication::scan(const std::vector<std::string>& files, DataRole role) const {
  CosmoIndex index = scan_cosmo(data_options(options_, role), files);
  return to_bytes(index);
}

std::unique_ptr<Dataset> CosmoflowApplication::open(const std::string& found, const std::string& /*what*/,
                                                    DataRole role) const {
  return std::make_unique<CosmoData>(data_options(options_, role), from_bytes<CosmoIndex>(found));
}

std::function<void(std::span<std::byte>, RandomSequence&)> CosmoflowApplication::augmentation(
    const Dataset& train) const {
  if (!options_.symmetries) return {};
  return CubeSymmetry(train.sample_dims());
}

// Judging needs no training set: without one, there is a warning.
std::vector<Estimates> CosmoflowApplication::other_estimates(const CommonOptions& common, Communicator& comm,
                                                             const Dataset& data) try {
  if (options_.evaluate.baseline_samples == 0) return {};
  const auto train = open_data(comm, *this, common.data.train, "data.train", DataRole::kTrain);
  return classical_estimates(comm, as_cubes(*train), as_cubes(data), options_.evaluate.baseline_samples);
} catch (const AgreedError& error) {
  if (error.kind() != ErrorKind::kUser) throw;
  if (comm.rank() == 0) log_warning("the classical estimates are left out: {}", error.what());
  return {};
}

Evaluation CosmoflowApplication::evaluate(const Dataset& data, const Predictions& predictions,
                                          const std::vector<Estimates>& others, Depth depth) const {
  return judge(options_, as_cubes(data), predictions, others, depth);
}

std::string CosmoflowApplication::curves(const Dataset& data, const Predictions& predictions) const {
  return report_curves(estimated_parameters(options_), as_cubes(data), predictions).dump();
}

PredictionRows CosmoflowApplication::rows(const Dataset& /*data*/, const Predictions& predictions) const {
  return prediction_rows(options_, predictions);
}

void CosmoflowApplication::generate(const CommonOptions& /*options*/, Communicator& comm, bool overwrite) const {
  agree(comm, [&] {
    if (comm.rank() == 0) prepare_folders(options_.generator, overwrite);
  });
  agree(comm, [&] { write_universes(options_.generator, comm.rank(), comm.size()); });
}

}  // namespace petaflow::cosmoflow
