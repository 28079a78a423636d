// The exponential moving average of the weights (optimizer.ema), which takes their place in validations, the evaluation
// and the checkpoint.
// Source: Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992; decay as in Izmailov et
// al. 2018 and TensorFlow's ExponentialMovingAverage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "comm/counted_wait.hpp"
#include "io/checkpoint.hpp"
#include "nn/network.hpp"

namespace petaflow {

class WeightAverage {
 public:
  /// @param decay  0: there is no average
  WeightAverage(const Network& network, double decay);

  /// Takes the weights after an update, which the context's step state counts.
  void update(const Context& context, const Network& network);
  /// The mean of the averages of several ranks, one of which may have had no update yet.
  void average_over(const Context& context, const Network& network, Communicator& across, const CountWait& waits);
  /// Exchanges the weights with their average, and refreshes.
  void swap(const Context& context, Network& network);

  /// Whether there is one: after the first update.
  bool exists() const { return exists_; }
  /// Whether there will be one.
  bool wanted() const { return values_.size() > 0; }
  std::vector<NamedArray> arrays(const Network& network, const std::string& prefix) const;
  /// Takes it from among these arrays, if it is there; how many it took.
  std::size_t restore(const Network& network, const std::vector<NamedArray>& arrays, const std::string& prefix,
                      const std::string& path);
  std::size_t size_bytes() const { return values_.size() * sizeof(float); }

 private:
  double decay_;
  Kokkos::View<float*, MemorySpace> values_;  // flat, as the weights
  bool exists_ = false;
};

}  // namespace petaflow
