// The network applied to a whole data set by all ranks together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "data/loader.hpp"
#include "nn/network.hpp"
#include "nn/objective.hpp"
#include "train/options.hpp"
#include "train/pass_inputs.hpp"
#include "train/stop_request.hpp"

namespace petaflow {

/// On rank 0, in the order of the data set; the arrays are empty elsewhere.
struct Predictions {
  std::int64_t count = 0, channels = 0;
  std::vector<float> outputs;  // (count, channels) of the network
  std::vector<float> scores;   // (count, channels) of the loss: probabilities, estimates
  std::vector<float> targets;  // of the data set's first target, (count, numbers); empty where it is none of numbers
  double loss = 0;             // mean of weight x loss, on all ranks
  StopRequest stopped = StopRequest::kNone;  // on all ranks; then nothing else is valid
};

class Predictor {
 public:
  using View = std::function<void(std::span<std::byte>)>;

  /// All references must outlive the object; the network is used as it is when run() is called.
  /// @param views  ways of looking at an image that must not matter, each changes one in place: outputs, scores and
  /// loss
  ///               are means over them; none: the image as it is
  Predictor(Communicator& comm, const Context& context, Network& network, const Objective& objective,
            const Dataset& data, const DataOptions& options, std::vector<View> views = {});

  /// Gives up where any rank is requested to stop.  Throws on all ranks where one fails.
  Predictions run();

 private:
  double add_view(const View& view, std::vector<std::int64_t>& indices, std::vector<float>& rows);

  Communicator& comm_;
  Context context_;
  Network& network_;
  const Dataset& data_;
  ObjectiveRun losses_;
  PassInputs inputs_;
  Kokkos::View<float*, MemorySpace> scores_;
  DataOptions options_;
  std::vector<View> views_;
};

}  // namespace petaflow
