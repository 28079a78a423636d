// The network applied to a whole data set by all ranks together.
#pragma once

#include <cstdint>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "data/loader.hpp"
#include "nn/loss.hpp"
#include "nn/network.hpp"
#include "train/options.hpp"
#include "train/pass_inputs.hpp"

namespace petaflow {

/// On rank 0, in the order of the data set; the arrays are empty elsewhere.
struct Predictions {
  std::int64_t count = 0, channels = 0;
  std::vector<float> outputs;  // (count, channels) of the network
  std::vector<float> scores;   // (count, channels) of the loss: probabilities
  double loss = 0;             // mean of weight x loss, on all ranks
};

class Predictor {
 public:
  /// All arguments must outlive the object; the network is used as it is when run() is called.
  Predictor(Communicator& comm, const Context& context, Network& network, const Loss& loss, const Dataset& data,
            const DataOptions& options);

  /// Throws on all ranks where one fails.
  Predictions run();

 private:
  Communicator& comm_;
  Context context_;
  Network& network_;
  const Loss& loss_;
  const Dataset& data_;
  PassInputs inputs_;
  Kokkos::View<float*, MemorySpace> scores_, losses_;
  Loader loader_;
  std::int64_t runs_ = 0;
};

}  // namespace petaflow
