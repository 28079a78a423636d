// A task of the small network whose metric the test writes down beforehand.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "program/options.hpp"
#include "program/task.hpp"
#include "scratch_folder.hpp"
#include "tiny_training.hpp"
#include "train/validation.hpp"

namespace petaflow::tiny {

class TinyEvaluator final : public Evaluator {
 public:
  explicit TinyEvaluator(double skill) : skill_(skill) {}
  void add(const PredictedBatch&) override {}
  void merge(Communicator&) override {}
  Evaluation evaluate() override { return {{{"skill", skill_, true}}, {}, {}}; }

 private:
  double skill_;
};

/// A run of it on one rank, without a folder: epochs of two steps, each evaluated.
struct Run {
  explicit Run(std::vector<double> values) : skills(std::move(values)) {
    options.train.epochs = static_cast<std::int64_t>(skills.size());
  }

  FitResult fit() {
    TrainStep step(comm, Context(), step_options(options), network(0), loss);
    Inference inference(step.network());
    Predictor predictor(comm, Context(), step.network(), loss, validation, options.data);
    const Validation between_epochs{inference, predictor, validation.size(),
                                    [&] { return std::make_unique<TinyEvaluator>(skills.at(evaluations++)); }};
    TrainingListener listener;
    return Trainer(trainer_options(options, "skill"), comm, Context(), step, train, {}, &between_epochs).fit(listener);
  }

  CommonOptions options;
  std::vector<double> skills;  // of each evaluation
  std::size_t evaluations = 0;
  Communicator comm;
  Data train{16}, validation{8};
  Objective loss{"class", std::make_shared<SoftmaxLoss>()};
};

}  // namespace petaflow::tiny
