// An application of the small network whose judgement the test writes down beforehand.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/self.hpp"
#include "program/application.hpp"
#include "program/job.hpp"
#include "scratch_folder.hpp"
#include "tiny_training.hpp"

namespace petaflow::tiny {

class TinyApplication final : public Application {
 public:
  std::string name() const override { return "tiny"; }
  std::string description() const override { return "tells bright noise from dark"; }
  void declare(Schema&) override {}
  Shape sample_shape() const override { return kSample; }
  Graph model(const Shape&) const override { return network(0); }
  Objective objective() const override { return {"class", std::make_shared<SoftmaxLoss>()}; }
  std::string scan(const std::vector<std::string>&, DataRole) const override { return {}; }
  std::unique_ptr<Dataset> open(const std::string&, const std::string&, DataRole) const override {
    return std::make_unique<Data>(8);
  }
  Augmentation augmentation(const Dataset&) const override { return {}; }
  std::vector<std::string> metrics() const override { return {"skill"}; }
  Evaluation evaluate(const Dataset&, const Predictions&, const std::vector<Estimates>&, Depth) const override {
    Evaluation evaluation;
    evaluation.metrics = {{"skill", skills.at(judgements++), true}};
    evaluation.json = "{}";
    return evaluation;
  }
  PredictionRows rows(const Dataset&, const Predictions&) const override { return {}; }
  void generate(const CommonOptions&, Communicator&, bool) const override {}

  std::vector<double> skills;  // of each judgement
  mutable std::size_t judgements = 0;
};

/// A run of it on one rank, in a folder of its own: epochs of two steps, each judged.
struct Run {
  explicit Run(std::vector<double> skills) {
    app.skills = std::move(skills);
    job.options.run.folder = folder.path();
    job.options.log.trace_steps = 0;
    job.options.train.epochs = static_cast<std::int64_t>(app.skills.size());
  }

  test::ScratchFolder folder;
  TinyApplication app;
  SelfCommunicator comm;
  Job job{app, comm, CommandLine()};
  Data train{16}, validation{8};
  Objective loss{"class", std::make_shared<SoftmaxLoss>()};
};

}  // namespace petaflow::tiny
