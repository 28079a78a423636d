// The HEP application: new physics against background in calorimeter images.
#pragma once

#include "hep/hep_report.hpp"
#include "hep/options.hpp"
#include "train/application.hpp"

namespace petaflow::hep {

class HepApplication final : public Application {
 public:
  std::string name() const override { return "hep"; }
  std::string description() const override;
  void declare(Schema& schema) override { hep::declare(schema, options_); }
  Shape sample_shape() const override;
  Graph model(const Shape& sample) const override { return hep::model(options_.model, sample); }
  std::unique_ptr<Loss> loss() const override;
  std::string scan(const std::vector<std::string>& files, DataRole role) const override;
  std::unique_ptr<Dataset> open(const std::string& found, const std::string& what, DataRole role) const override;
  void keep(const Dataset& train) override;
  std::function<void(std::span<std::byte>, RandomSequence&)> augmentation(const Dataset& train) const override;
  std::vector<Predictor::View> views(const Dataset& data) const override;
  std::vector<std::string> metrics() const override { return {"auc", "accuracy"}; }
  Evaluation evaluate(const Dataset& data, const Predictions& predictions, const std::vector<Estimates>& others,
                      Depth depth) const override;
  PredictionRows rows(const Dataset& data, const Predictions& predictions) const override;
  std::string curves(const Dataset& data, const Predictions& predictions) const override;
  std::vector<KeyNumber> key_numbers(const RunRecord& run) const override { return report_key_numbers(run); }
  void add_sections(Page& page, const std::vector<RunRecord>& runs) const override { add_report_sections(page, runs); }
  void generate(const CommonOptions& options, Communicator& comm, bool overwrite) const override;

 private:
  Options options_;
};

}  // namespace petaflow::hep
