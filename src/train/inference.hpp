// The network that predictions are made with during and after a training.
#pragma once

#include <memory>

#include "nn/graph.hpp"
#include "nn/network.hpp"

namespace petaflow {

/// Predictions are made in f32 whatever the precision of the training: rounded activations cost the accuracy of a
/// trained network more than gradients in bf16 cost its training.
class Inference {
 public:
  /// The trained network itself, which must outlive the object.
  explicit Inference(Network& trained) : trained_(trained) {}
  /// A network of its own, with the weights that the trained one had in the last update().
  /// @param tuning  as in Network
  Inference(Network& trained, const Graph& graph, const NetworkOptions& options, const Context& context,
            ConvTuning* tuning)
      : trained_(trained), own_(std::make_unique<Network>(graph, options, context, tuning)) {}

  Network& network() { return own_ ? *own_ : trained_; }
  /// Copies the trained weights to the network of its own, where there is one.
  void update(const Context& context);
  /// Memory beside that of the trained network.
  std::size_t arena_bytes() const { return own_ ? own_->arena_bytes() : 0; }

 private:
  Network& trained_;
  std::unique_ptr<Network> own_;
};

}  // namespace petaflow
