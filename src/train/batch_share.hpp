// The part of every global batch that a rank works through.
#pragma once

#include <cstdint>

#include "train/options.hpp"

namespace petaflow {

/// A rank's part of every global batch: slots [begin, end), in `micro_batches` of `micro_batch` slots each (the last
/// may have padded ones).
struct BatchShare {
  std::int64_t begin = 0, end = 0;
  std::int64_t micro_batch = 1;  // the same on all ranks
  std::int64_t micro_batches = 1;
  /// Losses are summed over ranks in so many parts, this rank's micro-batches in those from first_part on: one for
  /// all, or where the order of additions counts (deterministic) one for each micro-batch of any rank.
  std::int64_t first_part = 0, parts = 1;
  std::int64_t part_of(std::int64_t number) const { return parts == 1 ? 0 : first_part + number; }
};

/// The share of a rank: in a fixed order of sums whole shards of the batch, otherwise as even a part as possible.
BatchShare share_of_batch(const TrainOptions& options, int rank, int ranks);

/// Whether the gradient of a step is that of one micro-batch and is used before the next one begins: its memory may
/// serve the passes of that one.
bool gradient_ends_with_step(const BatchShare& share, const TrainOptions& train, const UpdateOptions& update);

}  // namespace petaflow
