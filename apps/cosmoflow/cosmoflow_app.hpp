// The CosmoFlow application: cosmological parameters from cubes of the dark-matter distribution.
#pragma once

#include "cosmoflow/baselines.hpp"
#include "cosmoflow/cosmoflow_report.hpp"
#include "cosmoflow/judgement.hpp"
#include "cosmoflow/options.hpp"
#include "data/bytes.hpp"
#include "nn/layers/counts.hpp"
#include "program/open_data.hpp"

namespace petaflow::cosmoflow {

class CosmoflowApplication final : public Application {
 public:
  std::string name() const override { return "cosmoflow"; }
  std::string description() const override {
    return "Reads cosmological parameters off the distribution of dark matter (Mathuriya et al., SC18; MLPerf HPC)";
  }
  void declare(Schema& schema) override { cosmoflow::declare(schema, options_); }
  Shape sample_shape() const override {
    const CosmoDataOptions& cubes = options_.data.cubes;
    return {1, cubes.channels, cubes.edge, cubes.edge, cubes.edge};
  }
  Graph model(const Shape& sample) const override {
    check(options_);
    Graph graph(sample, DType::kI16);
    graph.add<Counts>("counts", options_.data.scale == "mean" ? CountScale::kMean : CountScale::kLog1p);
    add_network(graph, options_.model, std::ssize(options_.data.parameters));
    return graph;
  }
  Objective objective() const override {
    const RegressionError error = options_.loss == "mse" ? RegressionError::kSquared : RegressionError::kAbsolute;
    return {"parameters", std::make_shared<RegressionLoss>(error)};
  }

  std::string scan(const std::vector<std::string>& files, DataRole role) const override {
    CosmoIndex index = scan_cosmo(data_options(options_, role), files);
    return to_bytes(index);
  }
  std::unique_ptr<Dataset> open(const std::string& found, const std::string& /*what*/, DataRole role) const override {
    return std::make_unique<CosmoData>(data_options(options_, role), from_bytes<CosmoIndex>(found));
  }
  Augmentation augmentation(const Dataset& train) const override {
    if (!options_.symmetries) return {};
    return CubeSymmetry(train.sample_dims());
  }

  MlperfBenchmark mlperf_benchmark() const override { return {"cosmoflow", "mae", "eval_error"}; }
  std::vector<std::string> metrics() const override { return metric_names(options_); }
  std::vector<Estimates> classical_estimates(const CommonOptions& common, Communicator& comm,
                                             const Dataset& data) override {
    if (options_.evaluate.baseline_samples == 0) return {};
    const auto train = open_data(comm, *this, common.data.train, "data.train", DataRole::kTrain);
    return cosmoflow::classical_estimates(comm, cubes(*train), cubes(data), options_.evaluate.baseline_samples);
  }
  Evaluation evaluate(const Dataset& data, const Predictions& predictions, const std::vector<Estimates>& others,
                      Depth depth) const override {
    return judge(options_, cubes(data), predictions, others, depth);
  }
  PredictionRows rows(const Dataset& /*data*/, const Predictions& predictions) const override {
    return prediction_rows(options_, predictions);
  }
  std::string curves(const Dataset& data, const Predictions& predictions) const override {
    return report_curves(estimated_parameters(options_), cubes(data), predictions).dump();
  }
  std::vector<KeyNumber> key_numbers(const RunRecord& run) const override { return report_key_numbers(run); }
  void add_sections(Page& page, const std::vector<RunRecord>& runs) const override { add_report_sections(page, runs); }

  void generate(const CommonOptions& /*options*/, Communicator& comm, bool overwrite) const override {
    generate_sets(options_.generator, comm, overwrite);
  }

 private:
  static const CosmoData& cubes(const Dataset& data) { return dynamic_cast<const CosmoData&>(data); }

  Options options_;
};

}  // namespace petaflow::cosmoflow
