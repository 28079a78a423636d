// The part of every global batch that a rank works through.
#pragma once

#include <cstdint>

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
  std::int64_t part_of(std::int64_t pass_number) const { return parts == 1 ? 0 : first_part + pass_number; }
};

/// The share of a rank: in a fixed order of sums whole shards of the batch, otherwise as even a part as possible.
BatchShare share_of_batch(const TrainOptions& options, int rank, int ranks);

}  // namespace petaflow
