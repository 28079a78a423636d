// The CosmoFlow application: cosmological parameters from cubes of the dark-matter distribution.
#pragma once

#include "cosmoflow/cosmoflow_report.hpp"
#include "cosmoflow/judgement.hpp"
#include "cosmoflow/options.hpp"
#include "train/application.hpp"

namespace petaflow::cosmoflow {

class CosmoflowApplication final : public Application {
 public:
  std::string name() const override { return "cosmoflow"; }
  std::string description() const override;
  void declare(Schema& schema) override { cosmoflow::declare(schema, options_); }
  Shape sample_shape() const override;
  Graph model(const Shape& sample) const override;
  std::unique_ptr<Loss> loss() const override;
  std::string scan(const std::vector<std::string>& files, DataRole role) const override;
  std::unique_ptr<Dataset> open(const std::string& found, const std::string& what, DataRole role) const override;
  std::function<void(std::span<std::byte>, RandomSequence&)> augmentation(const Dataset& train) const override;
  MlperfBenchmark mlperf_benchmark() const override { return {"cosmoflow", "mae", "eval_error"}; }
  std::vector<std::string> metrics() const override { return metric_names(options_); }
  std::vector<Estimates> other_estimates(const CommonOptions& common, Communicator& comm, const Dataset& data) override;
  Evaluation evaluate(const Dataset& data, const Predictions& predictions, const std::vector<Estimates>& others,
                      Depth depth) const override;
  std::string curves(const Dataset& data, const Predictions& predictions) const override;
  std::vector<KeyNumber> key_numbers(const RunRecord& run) const override { return report_key_numbers(run); }
  void add_sections(Page& page, const std::vector<RunRecord>& runs) const override { add_report_sections(page, runs); }
  PredictionRows rows(const Dataset& data, const Predictions& predictions) const override;
  void generate(const CommonOptions& options, Communicator& comm, bool overwrite) const override;

 private:
  Options options_;
};

}  // namespace petaflow::cosmoflow
