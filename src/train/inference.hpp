// The network that predictions are made with during and after a training.
#pragma once

#include <memory>

#include "nn/network.hpp"
#include "train/job.hpp"

namespace petaflow {

/// Predictions are made in f32 whatever the precision of the training: rounded activations cost the accuracy of a
/// trained network more than gradients in bf16 cost its training.
class Inference {
 public:
  /// Both must outlive the object.
  Inference(Job& job, Network& trained) : job_(job), trained_(trained) {}

  /// The trained network itself, or one in f32 with a copy of its present weights.
  Network& network();

 private:
  Job& job_;
  Network& trained_;
  std::unique_ptr<Network> own_;  // made when it is first asked for
};

}  // namespace petaflow
