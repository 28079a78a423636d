// How the gradients of the parts of a global batch come together on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "nn/network.hpp"
#include "train/options.hpp"

namespace petaflow {

/// A rank's part of every global batch: slots [begin, end), in `passes` runs of `pass` slots through the network
/// (the last may have padded slots).
struct BatchShare {
  std::int64_t begin = 0, end = 0;
  std::int64_t pass = 1;  // the same on all ranks
  std::int64_t passes = 1;
  /// Losses are summed over ranks in so many parts, this rank's passes in those from first_part on: one for all, or
  /// where the order of additions counts (deterministic) one for each pass of any rank.
  std::int64_t first_part = 0, parts = 1;
};

/// The share of a rank: in a fixed order of sums whole shards of the batch, otherwise as even a part as possible.
BatchShare share_of_batch(const TrainOptions& options, int rank, int ranks);

/// The exchange of one step: begin_step(), then per pass the network overwrites gradient() and end_pass() follows, at
/// last finish().
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  virtual void begin_step() = 0;
  /// Flat, in MemorySpace: that of a pass; from finish() on the sum.
  virtual float* gradient() = 0;
  /// In the running pass the elements from `first` to the end are final.
  virtual void ready_from(std::int64_t first) = 0;
  virtual void end_pass() = 0;
  /// Makes gradient() the sum over all passes of all ranks, the same bits on every rank.  summed(begin, end) is called
  /// as soon as its elements [begin, end), which end where parameters do, are final: at last for all, once.
  virtual void finish(const std::function<void(std::int64_t, std::int64_t)>& summed) = 0;
};

/// deterministic: the passes are numbered shards, summed in a fixed tree: the same bits on any number of ranks.
/// Otherwise: one pass per rank, summed in buckets of bucket_mb (MiB) or more while the
/// backward pass goes on.
std::unique_ptr<GradientExchange> make_gradient_exchange(Communicator& comm, const TrainOptions& options,
                                                         double bucket_mb, const std::vector<Parameter>& parameters);

}  // namespace petaflow
