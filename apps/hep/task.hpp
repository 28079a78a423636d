// The task of the HEP application: new physics against background in calorimeter images.
#pragma once

#include "comm/agree.hpp"
#include "data/bytes.hpp"
#include "hep/evaluator.hpp"
#include "hep/generate.hpp"
#include "hep/options.hpp"
#include "hep/phi.hpp"
#include "nn/objective.hpp"

namespace petaflow::hep {

class HepTask final : public Task {
 public:
  std::string name() const override { return "hep"; }
  std::string description() const override {
    return "Tells collision events with new physics from background by their calorimeter images (Kurth et al., SC17)";
  }
  void declare(Schema& schema) override { hep::declare(schema, options_); }
  Shape sample_shape() const override {
    const FileOptions& data = options_.data;
    return {1, data.channels * std::ssize(data.options.transforms), 1, data.height, data.width};
  }
  Graph model(const Shape& sample) const override { return hep::model(options_.model, sample); }
  Objective objective() const override { return {"class", std::make_shared<SoftmaxLoss>()}; }

  std::string scan(const std::vector<std::string>& files, DataRole role) const override {
    HepIndex index = scan_hep(data_options(options_.data, role), files);
    return to_bytes(index);
  }
  std::unique_ptr<Dataset> open(const std::string& found, const std::string& what, DataRole role) const override {
    auto data = std::make_unique<HepData>(data_options(options_.data, role), from_bytes<HepIndex>(found));
    check_phi_axis(options_, *data, what);
    return data;
  }
  void keep(const Dataset& train) override {
    FileOptions& own = options_.data;
    own.phi_axis = phi_axis(events(train));
    const std::vector<float>& maxima = events(train).maxima();
    if (own.options.scale == "max") own.maxima.assign(maxima.begin(), maxima.end());
  }
  Augmentation augmentation(const Dataset& train) const override {
    return hep::augmentation(options_.augment, events(train));
  }

  std::vector<ImageView> views(const Dataset& data) const override {
    return options_.evaluate.mirrors ? mirrored_views(data.sample_dims()) : std::vector<ImageView>();
  }
  std::vector<std::string> metrics() const override { return {"auc", "accuracy"}; }
  std::unique_ptr<Evaluator> evaluator(const Dataset& data, Depth depth) override {
    return std::make_unique<HepEvaluator>(events(data), options_, depth);
  }
  PredictionRows rows(const Dataset& data, const PredictedBatch& batch) const override {
    return {prediction_columns(events(data), batch), {}};
  }

  void generate(const DataOptions& data, Communicator& comm, bool overwrite) const override {
    agree(comm, [&] {
      if (comm.rank() == 0) write_sets(data, options_, overwrite);
    });
  }

 private:
  static const HepData& events(const Dataset& data) { return dynamic_cast<const HepData&>(data); }

  Options options_;
};

}  // namespace petaflow::hep
