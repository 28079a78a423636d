// The network that predictions are made with during and after a training.
#pragma once

#include <memory>

#include "nn/network.hpp"
#include "program/job.hpp"

namespace petaflow {

/// Predictions are made in f32 whatever the precision of the training: rounded activations cost the accuracy of a
/// trained network more than gradients in bf16 cost its training.
class Inference {
 public:
  /// Both must outlive the object.
  Inference(const Job& job, Network& trained);

  /// The trained network itself, or one in f32 with the weights that the trained one had in the last update().
  Network& network() { return own_ ? *own_ : trained_; }
  void update(const Context& context);
  /// Memory beside that of the trained network.
  std::size_t arena_bytes() const { return own_ ? own_->arena_bytes() : 0; }

 private:
  Network& trained_;
  std::unique_ptr<Network> own_;  // where the trained one is in bf16 and there is something to predict
};

}  // namespace petaflow
