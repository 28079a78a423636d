// The task of the CosmoFlow application: cosmological parameters from cubes of the dark-matter distribution.
#pragma once

#include "comm/agree.hpp"
#include "cosmoflow/evaluator.hpp"
#include "cosmoflow/options.hpp"
#include "data/bytes.hpp"
#include "nn/layers/counts.hpp"
#include "nn/objective.hpp"

namespace petaflow::cosmoflow {

class CosmoflowTask final : public Task {
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
    if (role == DataRole::kTrain || role == DataRole::kEvaluate) {
      refuse_failed_conversion(data_options(options_, role), index, role == DataRole::kTrain);
    }
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
  std::unique_ptr<Evaluator> evaluator(const Dataset& data, Depth depth) override {
    return std::make_unique<CosmoflowEvaluator>(*this, dynamic_cast<const CosmoData&>(data), options_, depth);
  }
  PredictionRows rows(const Dataset& /*data*/, const PredictedBatch& batch) const override {
    return prediction_rows(options_, batch);
  }

  void generate(const DataOptions& /*data*/, Communicator& comm, bool overwrite) const override {
    agree(comm, [&] { check_readable(options_); });
    generate_sets(options_.generator, comm, overwrite);
  }

 private:
  Options options_;
};

}  // namespace petaflow::cosmoflow
