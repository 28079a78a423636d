// The evaluation of a network between epochs.
#pragma once

#include <functional>
#include <memory>

#include "train/inference.hpp"
#include "train/predictor.hpp"

namespace petaflow {

/// Services that a trainer evaluates its weights with.  All must outlive the trainer.
struct Validation {
  Inference& inference;
  Predictor& predictor;  // of the network of `inference`
  std::int64_t samples = 0;
  std::function<std::unique_ptr<Evaluator>()> evaluator;  // a new one for each evaluation
};

}  // namespace petaflow
