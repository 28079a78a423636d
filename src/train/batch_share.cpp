#include "train/batch_share.hpp"

#include "comm/reduction_plan.hpp"

namespace petaflow {

BatchShare share_of_batch(const TrainOptions& options, int rank, int ranks) {
  BatchShare share;
  if (options.deterministic) {
    share.micro_batch = options.batch / options.shards;
    const ShardRange shards = shards_of(rank, ranks, static_cast<int>(options.shards));
    share.begin = shards.begin * share.micro_batch;
    share.end = shards.end * share.micro_batch;
    share.micro_batches = shards.count();
    share.first_part = shards.begin;
    share.parts = options.shards;
  } else {
    share.micro_batch = (options.batch + ranks - 1) / ranks / options.accumulate;
    share.micro_batches = options.accumulate;
    const ShardRange slots = shards_of(rank, ranks, static_cast<int>(options.batch));
    share.begin = slots.begin;
    share.end = slots.end;
  }
  return share;
}

bool gradient_ends_with_step(const BatchShare& share, const TrainOptions& train, const UpdateOptions& update) {
  return share.micro_batches == 1 && train.batch_epochs.empty() && update.lag == 0;
}

}  // namespace petaflow
