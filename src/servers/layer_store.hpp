// What a server keeps of a layer, as far as the order of messages needs to know it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "servers/protocol.hpp"

namespace petaflow {

/// Weights and the states of their optimizer, (elements()) each.  Values come and go in host memory.
class LayerStore {
 public:
  LayerStore() = default;
  virtual ~LayerStore() = default;
  LayerStore(const LayerStore&) = delete;
  LayerStore& operator=(const LayerStore&) = delete;

  virtual std::int64_t elements() const = 0;
  /// Whether there are values; without them messages have their sizes alone, and pointers are null.
  virtual bool has_values() const { return true; }
  /// The update by a gradient, after so many before it.
  /// @param seen      updates that the weights had seen which the gradient is of
  /// @param gradient  may be overwritten
  virtual void update(std::int64_t version, std::int64_t seen, float learning_rate, float* gradient) = 0;
  /// Of updates from now on, instead of that of the optimizer's options.
  virtual void set_momentum(double /*momentum*/) {}
  /// All groups have, or get, these weights, which have seen so many updates.
  virtual void settled(std::int64_t /*version*/) {}
  virtual void read_weights(float* values) const = 0;
  virtual void set_weights(const float* values) = 0;
  virtual void read_state(std::int32_t state, float* values) const = 0;
  virtual void set_state(std::int32_t state, const float* values) = 0;
  /// Numbers that the optimizer's tuner goes on with, where it has one.
  virtual void read_tuner(std::span<float> /*numbers*/) const {}
  virtual void set_tuner(std::span<const float> /*numbers*/) {}
};

/// Makes the store of a layer of these parameters.
using MakeLayerStore = std::function<std::unique_ptr<LayerStore>(std::span<const ServedParameter> parameters)>;

}  // namespace petaflow
