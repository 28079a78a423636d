// One rank of a training run as far as other ranks notice it: the messages of TrainStep and Trainer, by the same
// objects, around computation of which only the time is known.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "comm/communicator.hpp"
#include "comm/gradient_sum.hpp"
#include "servers/layer_store.hpp"
#include "servers/served_layer.hpp"

namespace petaflow::scaling {

/// Layers that are computed together, with their parameters.
struct StageTimes {
  std::string name;
  std::int64_t elements = 0;
  double forward_s = 0, backward_s = 0;
};

/// What a rank computes in a step.
struct Workload {
  std::vector<StageTimes> stages;  // in the order of the forward pass
  double other_s = 0;              // input, loss and what else comes before the backward pass
  double optimizer_s = 0;          // of all parameters
  double server_element_s = 0;     // of an update by a server, for each element

  std::int64_t elements() const;
  double step_s() const;  // of one rank alone
};

/// How much longer computation takes than that.  Factors have a mean of 1 before pauses are added.
struct Noise {
  double rank_sigma = 0;  // of a log-normal factor of a rank, the same in all steps
  double step_sigma = 0;  // of a log-normal factor of a rank and step
  double pause_s = 0;     // exponential pauses of this mean length ...
  double pauses = 0;      // ... so many in a step, on average
};

struct Scheme {
  std::int64_t steps = 10;  // of all groups together
  int groups = 1, servers = 0;
  bool colocate_servers = false;  // inside ranks that train, instead of on ranks of their own
  UpdateOrder order = UpdateOrder::kArrival;
  std::int64_t lag = 0;  // without servers
  bool sharded = false;  // likewise: update.sharded
  /// Without servers: groups train by themselves and average weights and states after so many steps of each.
  std::int64_t average_every = 0;
  std::int64_t average_late = 0;  // of weights alone, used so many steps later; the last one is of all, and waited for
  int averaged_arrays = 3;        // as long as the weights: these, and two states of Adam
  double bucket_mb = 0.5;         // as training's
  std::string reduction = "auto";
  Wire wire = Wire::kF32;
  bool overlap = true;
  double poll_s = 0;  // sums move on so often while a stage computes; 0: at its end alone
};

/// Times at which a rank has ended its steps, and what it did until then.
struct RankTimes {
  std::vector<double> end_s;      // of its own steps
  std::vector<double> compute_s;  // likewise: what it computed in the step
  double start_s = 0;             // of the first
};

/// Who is who among so many ranks.
ServerLayout layout_of(int ranks, const Scheme& scheme);

/// A rank of all: workers, then servers where they are ranks of their own.
/// @param seed  of its noise
RankTimes run_rank(Communicator& all, const Workload& workload, const Scheme& scheme, const Noise& noise,
                   std::uint64_t seed);

/// Layers without values, whose updates take time on their server.
/// @param seconds  of an update of a layer of so many elements
MakeLayerStore timed_layers(Transport& server, std::function<double(std::int64_t elements)> seconds);

}  // namespace petaflow::scaling
